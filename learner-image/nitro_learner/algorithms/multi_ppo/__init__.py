"""Proximal policy optimisation for several agents: IPPO (de Witt et al. 2020), MAPPO (Yu et al. 2022)."""
