"""What people look at: plots, the table of a cluster's jobs, and the HTML report of a run.

Nothing here needs torch, so that `kubectl nitro` installs without it.
"""
