"""Job files: read, checked, and refused with the line of every mistake."""
