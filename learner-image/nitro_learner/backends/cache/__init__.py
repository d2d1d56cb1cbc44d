"""The trajectory cache: weights go out to actors, fragments come back."""
