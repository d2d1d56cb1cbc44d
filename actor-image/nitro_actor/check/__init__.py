"""The check of an environment before training, in a process of its own: `python -m nitro_actor.check`"""
