"""Access to the Kubernetes API: kinds, names, client, watch cache and work queue."""
