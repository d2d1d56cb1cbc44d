"""Running: the runs of an experiment, trained on this machine or as jobs of a cluster."""
