"""A run on disk: its folder, bucket, metrics and logs, and the plots, tables and reports that show it."""
