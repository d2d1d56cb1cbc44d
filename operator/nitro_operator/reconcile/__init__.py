"""The reconcile of one job."""
