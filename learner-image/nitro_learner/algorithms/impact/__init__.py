"""IMPACT (Luo et al., ICLR 2020)."""
