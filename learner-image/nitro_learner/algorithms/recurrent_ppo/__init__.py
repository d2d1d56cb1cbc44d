"""PPO, IPPO and MAPPO with a recurrent layer in policies and critics."""
