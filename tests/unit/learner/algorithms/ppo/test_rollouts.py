"""A round of one agent: order of rows, bootstraps, and what is refused."""

import numpy as np
import pytest

from agents_support import team
from learner_support import HOPPER, fragment, plain
from nitro_learner.algorithms.ppo.rollouts import PolicyRollouts, When
from nitro_learner.data.batch import Fragment, check_round

WEIGHT = np.linspace(-1, 1, 11, dtype=np.float32)


def rollouts_of(fragments: list[Fragment]) -> PolicyRollouts:
    return PolicyRollouts(team(HOPPER.only_class, algorithm="ippo"), HOPPER.only_class, [0], fragments)


@pytest.mark.parametrize("ends", [0.0, 0.1])
def test_equals_step_by_step_recomputation(ends: float) -> None:
    fragments = [fragment(slot, length=20, envs=3, ends=ends) for slot in (0, 2, 5)]
    rollouts = rollouts_of(fragments)

    def values(when: When) -> np.ndarray:
        found: np.ndarray = 2 * rollouts.observations(when) @ WEIGHT
        return found

    rewards = [lanes.rewards for lanes in rollouts.lanes()]
    estimates = rollouts.estimates(rewards, values, gamma=0.9, gae_lambda=0.8)
    observations, actions, log_probs = (
        rollouts.rows(name) for name in ("observations", "actions", "log_probs")
    )
    row = 0
    for f in fragments:
        t_ = plain(f)
        value = {name: 2 * t_[name] @ WEIGHT for name in t_ if name.endswith("observations")}
        cuts = [tuple(c) for c in np.argwhere(t_["truncated"] & ~t_["terminated"])]
        for t in range(20):
            for e in range(3):
                np.testing.assert_array_equal(observations[row], t_["observations"][t, e])
                np.testing.assert_array_equal(actions[row], t_["actions"][t, e])
                assert log_probs[row] == t_["log_probs"][t, e]
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
                assert estimates.advantages[row] == pytest.approx(advantage, rel=1e-4, abs=1e-4)
                assert estimates.values[row] == pytest.approx(value["observations"][t, e], rel=1e-5)
                row += 1
    assert row == len(estimates.advantages) == 180


def test_fragments_that_form_no_round_are_refused() -> None:
    for refusing in (check_round, rollouts_of):
        with pytest.raises(ValueError, match="without fragments"):
            refusing([])
        with pytest.raises(ValueError, match="the same steps and environments"):
            refusing([fragment(0, length=32), fragment(1, length=64)])
    with pytest.raises(ValueError, match=r"sorted by slot, got slots \[1, 0\]"):
        check_round([fragment(1), fragment(0)])
    with pytest.raises(ValueError, match=r"sorted by slot, got slots \[1, 1\]"):
        check_round([fragment(1), fragment(1)])
