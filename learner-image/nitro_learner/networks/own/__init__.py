"""Networks of the user's own: a torch.nn.Module that the learner trains, and that actors play without
torch."""
