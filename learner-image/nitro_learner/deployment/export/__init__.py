"""Export: trained policies as files for other programs."""
