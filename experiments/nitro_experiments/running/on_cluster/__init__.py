"""An experiment's runs as jobs of a cluster."""
