"""Learning algorithms: one folder each, and beside the folders the code that they share."""
