"""A run on disk: its folder, its bucket, its metrics and its logs."""
