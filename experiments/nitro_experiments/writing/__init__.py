"""Writing: the report of an experiment, with its answers, tables and pictures."""
