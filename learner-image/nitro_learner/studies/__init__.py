"""Studies of one job or one run: resolved jobs, checks, evaluation, videos, profiling and planning."""
