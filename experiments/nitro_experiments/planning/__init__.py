"""Planning: an experiment's file, and the runs that it asks for."""
