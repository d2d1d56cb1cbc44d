"""Proximal policy optimisation (Schulman et al. 2017), also of several agents: IPPO (de Witt et al. 2020),
MAPPO (Yu et al. 2022)."""
