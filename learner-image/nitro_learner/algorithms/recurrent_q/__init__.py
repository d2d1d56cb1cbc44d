"""IQL, VDN and QMIX with a recurrent layer in the Q-networks."""
