"""What the processor can do, as far as it decides how numpy's products are fastest."""


def _features() -> set[str]:
    try:
        with open("/proc/cpuinfo") as file:  # noqa: PTH123 - pathlib takes as long to load as all of this
            return set(file.read(4096).split())
    except OSError:
        return set()


AVX512 = {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"} <= _features()
"""Whether this is Linux on a processor with AVX-512."""
