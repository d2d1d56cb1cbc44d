"""Policies and critics that remember: a recurrent layer, and the sequences that it learns from."""
