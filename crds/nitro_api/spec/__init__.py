"""The models of a job: the fields of its spec and of its status."""
