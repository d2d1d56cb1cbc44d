"""The CRD's schema, and the texts that are generated from the models."""
