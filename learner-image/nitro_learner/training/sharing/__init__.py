"""Learner sharing: when agents share policies, who shares with whom, and whose policy goes on."""
