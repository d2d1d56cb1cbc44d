"""The processor: its kind, which decides how matrix products are fastest, and its cores."""

import os


def cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


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
