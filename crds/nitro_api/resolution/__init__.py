"""Resolution: a job becomes the job with every default filled in."""
