"""Policies and critics: networks, their kernels, action distributions and normalisers."""
