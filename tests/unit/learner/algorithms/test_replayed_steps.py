"""Steps that are captured once and replayed give what calls of them give, to the bit: in rounds of other
sizes, learning rates and KL penalties. A stand-in on the CPU records them (see `recorded_steps`)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from nitro_actor.protocol.agents import AGENT
from nitro_actor.protocol.weights import DEFAULT_POLICY
from nitro_learner.algorithms.ppo import learning
from nitro_learner.algorithms.ppo.learning import Ppo
from nitro_learner.data.batch import Fragment
from nitro_learner.networks.steps import Graphs
from recorded_steps import Recorded, by_torch
from step_rounds import agents, hopper, of_agents, of_hopper, same


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Recorded:
    by_torch(monkeypatch)
    return Recorded()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "rounds"),
    [
        (lambda: of_hopper("tuned"), hopper([2, 1, 2])),
        (lambda: of_agents("ippo"), agents([2, 1, 2])),
        (lambda: of_agents("mappo"), agents([2, 1, 2])),
        (lambda: of_agents("ippo", memory=True), agents([2, 1, 2])),
    ],
    ids=["ppo", "ippo", "mappo", "memory"],
)
def test_replayed_steps_learn_what_called_steps_learn(
    make: Callable[[], Ppo], rounds: list[list[Fragment]], recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    called = make()
    monkeypatch.setattr(learning, "graphs_on", lambda *names: Graphs(recorded, *names[1:]))
    replayed = make()
    for k, fragments in enumerate(rounds, 1):
        expected, found = called.update(fragments, k), replayed.update(fragments, k)
        assert same(replayed.state_dict(), called.state_dict()), f"after round {k}"
        assert [result.stats for result in found.values()] == [result.stats for result in expected.values()]
    assert 0 < recorded.captures < recorded.replays


def test_replayed_steps_have_the_kl_penalty_of_an_only_agent(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Called steps have it as a number of the loss, whose gradient is rounded otherwise.
    called = of_hopper("paper")
    monkeypatch.setattr(learning, "graphs_on", lambda *names: Graphs(recorded, *names[1:]))
    replayed = of_hopper("paper")
    for k, fragments in enumerate(hopper([2, 1, 2]), 1):
        expected = called.update(fragments, k)[DEFAULT_POLICY].stats
        assert replayed.update(fragments, k)[DEFAULT_POLICY].stats == pytest.approx(expected, rel=1e-4)
    assert called.learned[AGENT].kl_coefficient != called.settings.kl_coefficient, "it changed"
    torch.testing.assert_close(replayed.learned[AGENT].parameters, called.learned[AGENT].parameters)
    assert recorded.replays > 0
