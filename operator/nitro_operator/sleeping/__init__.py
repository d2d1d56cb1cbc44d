"""Actor pods that sleep in place: whose they are, what they are to be, and the patches that change them."""
