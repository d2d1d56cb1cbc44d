"""Nitro's Kubernetes operator."""
