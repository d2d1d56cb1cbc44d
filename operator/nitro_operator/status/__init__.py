"""The part of a job's status that the operator owns."""
