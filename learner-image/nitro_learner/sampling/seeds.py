"""Seeds of a run: every slot's seed follows from (run seed, round, slot), so a retry is bit-identical.

NumPy's ``SeedSequence`` hashes the whole tuple, so neighbouring rounds and slots get unrelated streams, and
rollouts never share one with evaluations.
"""

import numpy as np

_ROLLOUT = 0
_EVALUATION = 1


def slot_seed(run_seed: int, round: int, slot: int) -> int:
    """Seed of one rollout slot, in [0, 2**63). The attempt is no part of it."""
    return _derive(run_seed, _ROLLOUT, round, slot)


def evaluation_seed(run_seed: int, weights_version: int, slot: int) -> int:
    """Seed of one evaluation slot, in [0, 2**63); evaluations never reuse a rollout's seed."""
    return _derive(run_seed, _EVALUATION, weights_version, slot)


def _derive(run_seed: int, stream: int, index: int, slot: int) -> int:
    if min(run_seed, index, slot) < 0:
        raise ValueError(f"seeds come from numbers >= 0, not from ({run_seed}, {index}, {slot})")
    sequence = np.random.SeedSequence((run_seed, stream, index, slot))
    return int(sequence.generate_state(1, np.uint64)[0] >> np.uint64(1))
