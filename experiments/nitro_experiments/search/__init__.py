"""Searches: trials with settings that Optuna proposes, and the best of them against the job's own."""
