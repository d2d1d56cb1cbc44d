"""What people look at without training anything: the table of a cluster's jobs, and the report of a run.

Nothing here needs torch, so that `kubectl nitro` installs without it.
"""
