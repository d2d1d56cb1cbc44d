"""Settings that must be made before numpy and MuJoCo load. Every program of the actor imports this first."""

import os

from nitro_actor.processor import AVX512

# One thread, so that the same request gives the same bits on equal machines.
for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"
# OpenBLAS takes slow kernels on processors newer than itself; AVX-512 ones are three times as fast on Zen 5.
if AVX512:
    os.environ.setdefault("OPENBLAS_CORETYPE", "SkylakeX")
# MuJoCo loads no window system, because loading one takes long. Code that renders sets another value.
os.environ.setdefault("MUJOCO_GL", "disable")
