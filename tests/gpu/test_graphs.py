"""Steps that run as CUDA graphs give what the same steps give when their kernels are started one by one, to
the bit, and no capture fails.

Without a GPU these tests are skipped, or fail where NITRO_REQUIRE_GPU=1: `make test-gpu`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

import needs
from nitro_actor.protocol.weights import DEFAULT_POLICY
from nitro_api.spec.scaling import GivenScaling
from nitro_learner.algorithms.ppo import learning
from nitro_learner.algorithms.ppo.learning import Ppo
from nitro_learner.boosting import detector
from nitro_learner.boosting.detector import Detector, Measurement
from nitro_learner.data.batch import Fragment
from nitro_learner.networks.steps import CudaRecorder, Graphs
from step_rounds import agents, hopper, of_agents, of_hopper, same


class Counting(CudaRecorder):
    """Counts what it captures."""

    def __init__(self) -> None:
        super().__init__()
        self.captures = 0

    def capture(self, step: Callable[[], None]) -> Callable[[], None]:
        self.captures += 1
        return super().capture(step)


@pytest.fixture(autouse=True)
def gpu() -> None:
    if not torch.cuda.is_available():
        needs.without("PyTorch sees no CUDA GPU here", "NITRO_REQUIRE_GPU")


@pytest.mark.parametrize(
    ("make", "rounds"),
    [
        (lambda: of_hopper("tuned", "cuda"), hopper([3, 3, 2, 5])),
        (lambda: of_hopper("paper", "cuda"), hopper([3, 3, 2, 5])),
        (lambda: of_agents("ippo", "cuda"), agents([3, 3, 2, 5])),
        (lambda: of_agents("mappo", "cuda"), agents([3, 3, 2, 5])),
        (lambda: of_agents("ippo", "cuda", memory=True), agents([3, 3, 2, 5])),
    ],
    ids=["tuned", "paper", "ippo", "mappo", "memory"],
)
def test_graphs_learn_what_steps_learn_whose_kernels_are_started_one_by_one(
    make: Callable[[], Ppo], rounds: list[list[Fragment]], monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder, learners = Counting(), []
    for chosen in (recorder, None):
        monkeypatch.setattr(learning, "graphs_on", lambda _, what, chosen=chosen: Graphs(chosen, what))
        learners.append(make())
    for k, fragments in enumerate(rounds, 1):
        for learner in learners:
            learner.update(fragments, k)
        assert same(learners[0].state_dict(), learners[1].state_dict()), f"after round {k}"
    assert recorder.captures > 0


@pytest.mark.parametrize("preset", ["tuned", "paper"])
def test_a_graph_measures_what_products_measure_whose_kernels_are_started_one_by_one(
    preset: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (fragments,) = hopper([3])
    surrogate = of_hopper(preset, "cuda").update(fragments, 1)[DEFAULT_POLICY].surrogate

    def measured() -> Measurement:
        return replace(Detector(GivenScaling(), 0, 128).measure(surrogate, 1), seconds=0.0)

    replayed = measured()
    assert "cannot be captured" not in caplog.text
    monkeypatch.setattr(detector, "graphs_on", lambda _, what: Graphs(None, what))
    assert replayed == measured()
