"""Observed objects of a job, and the diagnosis of what is wrong with them."""
