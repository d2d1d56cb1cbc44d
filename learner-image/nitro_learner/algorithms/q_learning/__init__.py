"""IQL, VDN and QMIX: one Q-learner, whose mixer is an argument."""
