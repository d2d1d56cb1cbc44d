"""Deployment: trained policies as files for other programs, and behind HTTP."""
