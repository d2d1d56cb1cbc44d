"""The messages between learner and actor. Each is written once, here, and both sides import it.

- `request.Request`: what the learner asks of an actor.
- `weights.WeightsContainer`: the policies of one version, and which agent plays which of them.
- `fragment.FragmentContainer`: what an actor sampled.
- `agents`: the agents of an environment, in classes of equal spaces.

`nitro_actor.wire` turns metadata and tensors into bytes; docs/development.md describes the whole format.
"""
