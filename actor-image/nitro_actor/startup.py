"""What must be set before numpy and MuJoCo load. Every program of the actor imports this first."""

import os

# One thread, so that the same request gives the same bits on equal machines.
for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"
# OpenBLAS takes slow kernels on processors newer than itself; AVX-512 ones are three times as fast on Zen 5.
try:
    with open("/proc/cpuinfo") as _file:  # noqa: PTH123
        if {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"} <= set(_file.read(4096).split()):
            os.environ.setdefault("OPENBLAS_CORETYPE", "SkylakeX")
except OSError:
    pass
# No window system, which takes MuJoCo long to load. Whoever renders sets another.
os.environ.setdefault("MUJOCO_GL", "disable")
