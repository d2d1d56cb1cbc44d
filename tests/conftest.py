"""Settings of hypothesis that all tests share."""

import os

from hypothesis import settings

# Read as onnxruntime is imported, whose wheels send telemetry otherwise.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

# A busy machine must not fail a test by its clock; the same examples every time, so that a failure repeats.
settings.register_profile("nitro", deadline=None, derandomize=True)
settings.load_profile("nitro")
