"""The kind of processor, which decides how matrix products are fastest."""


def _information() -> set[str]:
    try:
        with open("/proc/cpuinfo") as file:  # noqa: PTH123 - pathlib takes as long to load as all of this
            return set(file.read(4096).split())
    except OSError:
        return set()


_INFORMATION = _information()

AVX512 = {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"} <= _INFORMATION
"""Whether this is Linux on a processor with AVX-512."""

INTEL = "GenuineIntel" in _INFORMATION
"""Whether this is Linux on a processor of Intel's."""
