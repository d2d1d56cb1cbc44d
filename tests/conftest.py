"""Settings of hypothesis that all tests share."""

from hypothesis import settings

# A busy machine must not fail a test by its clock; the same examples every time, so that a failure repeats.
settings.register_profile("nitro", deadline=None, derandomize=True)
settings.load_profile("nitro")
