"""A round's batch: order of rows, bootstraps, and what is refused."""

import numpy as np
import pytest
import torch

from learner_support import fragment
from nitro_learner.data.batch import Batch, Fragment, assemble

WEIGHT = torch.linspace(-1, 1, 11)


def batch(fragments: list[Fragment]) -> Batch:
    return assemble(
        fragments,
        [f.tensors["rewards"] for f in fragments],
        prepare=lambda observations: 2 * observations,
        values=lambda x: x @ WEIGHT,
        gamma=0.9,
        gae_lambda=0.8,
    )


@pytest.mark.parametrize("ends", [0.0, 0.1])
def test_equals_step_by_step_recomputation(ends: float) -> None:
    fragments = [fragment(slot, length=20, envs=3, ends=ends) for slot in (0, 2, 5)]
    made = batch(fragments)
    row = 0
    for f in fragments:
        t_ = f.tensors
        value = {name: 2 * t_[name] @ WEIGHT.numpy() for name in t_ if name.endswith("observations")}
        cuts = [tuple(c) for c in np.argwhere(t_["truncated"] & ~t_["terminated"])]
        for t in range(20):
            for e in range(3):
                np.testing.assert_array_equal(made.observations[row], 2 * t_["observations"][t, e])
                np.testing.assert_array_equal(made.actions[row], t_["actions"][t, e])
                assert made.log_probs[row] == t_["log_probs"][t, e]
                advantage, factor = 0.0, 1.0
                for u in range(t, 20):
                    if t_["terminated"][u, e]:
                        bootstrap = 0.0
                    elif t_["truncated"][u, e]:
                        bootstrap = value["final_observations"][cuts.index((u, e))]
                    else:
                        bootstrap = (
                            value["observations"][u + 1, e] if u < 19 else value["last_observations"][e]
                        )
                    delta = t_["rewards"][u, e] + 0.9 * bootstrap - value["observations"][u, e]
                    advantage += factor * delta
                    factor *= 0.9 * 0.8
                    if t_["terminated"][u, e] or t_["truncated"][u, e]:
                        break
                assert made.advantages[row] == pytest.approx(advantage, rel=1e-4, abs=1e-4)
                assert made.returns[row] == pytest.approx(
                    advantage + value["observations"][t, e], rel=1e-4, abs=1e-4
                )
                row += 1
    assert row == len(made) == 180


def test_fragments_that_form_no_round_are_refused() -> None:
    with pytest.raises(ValueError, match="without fragments"):
        batch([])
    with pytest.raises(ValueError, match=r"sorted by slot, got slots \[1, 0\]"):
        batch([fragment(1), fragment(0)])
    with pytest.raises(ValueError, match=r"sorted by slot, got slots \[1, 1\]"):
        batch([fragment(1), fragment(1)])
    with pytest.raises(ValueError, match="the same steps and environments"):
        batch([fragment(0, length=32), fragment(1, length=64)])
