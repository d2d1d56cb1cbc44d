"""The multi-agent particle environments of mpe2: all copies stepped at once, in NumPy and without mpe2."""
