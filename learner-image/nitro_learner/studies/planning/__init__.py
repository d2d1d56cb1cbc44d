"""What a job takes before it runs: its rounds are measured, modelled, and shown by number of actors."""
