"""Reading: the folder of an experiment, and what its finished runs measured."""
