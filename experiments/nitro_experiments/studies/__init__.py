"""Studies of one job or one run: its landscape, its rounds repeated, and the pretraining of its scaler."""
