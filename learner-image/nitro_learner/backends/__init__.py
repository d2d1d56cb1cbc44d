"""Actor backends: where actors run, one or more modules for each, behind one interface (base.py)."""
