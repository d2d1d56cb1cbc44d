"""Nitro as a library: trained policies, run folders, and training from a script or a notebook."""
