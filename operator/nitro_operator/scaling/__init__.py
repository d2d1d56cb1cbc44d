"""Actor demand of a job, and grants of the platform."""
