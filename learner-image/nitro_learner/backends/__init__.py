"""Actor backends: where work runs, one or more modules for each behind base.py, and pools of its tasks."""
