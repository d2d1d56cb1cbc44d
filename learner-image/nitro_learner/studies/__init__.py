"""Studies of one job or one run: evaluation, videos, profiling, landscapes, pretraining of scalers."""
