"""SMAX, JaxMARL's battles of two armies: all copies step at once, in one compiled program."""

MAPS = ("3s5z", "8m")
