"""Actor-critics whose critics are Q-functions: SAC, TD3 and DDPG."""
