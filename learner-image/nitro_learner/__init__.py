"""Nitro's learner: algorithms, boosting, scalers, dispatch and the nitro command line."""
