"""The detector: the ratio's degenerate cases, what it draws, and what it measures on a PPO round."""

import math
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from learner_support import HOPPER, fragment, job, learner_of, module, module_of, parts_of, plain
from nitro_actor.protocol.weights import DEFAULT_POLICY
from nitro_api.spec.scaling import GivenScaling
from nitro_learner.algorithms.base import UpdateResult
from nitro_learner.algorithms.ppo.learning import Ppo
from nitro_learner.algorithms.ppo.loss import Coefficients
from nitro_learner.algorithms.ppo.samples import Samples
from nitro_learner.algorithms.ppo.surrogate import PpoSurrogate
from nitro_learner.boosting.detector import Detector, convexity_ratio, transitions
from nitro_learner.boosting.hvp import Hessian
from nitro_learner.boosting.surrogate import Function, Objective
from nitro_learner.networks.actor_critic import ActorCritic, Bound
from nitro_learner.networks.distributions import Bernoulli, MultiCategorical


@pytest.mark.parametrize(
    ("smallest", "largest", "ratio"),
    [
        (-2.0, 3.0, 1.5),
        (-3.0, 3.0, 1.0),
        (0.0, 2.0, 1e6),  # positive semi-definite: never boost
        (1.0, 2.0, 1e6),
        (-1e-12, 2.0, 1e6),
        (-2.0, 0.0, 1e-6),  # negative semi-definite: most boostable
        (-2.0, -1.0, 1e-6),
        (-2.0, 1e-12, 1e-6),
        (0.0, 0.0, None),
        (math.nan, 1.0, None),
        (-1.0, math.nan, None),
        (-math.inf, 1.0, None),
        (-1.0, math.inf, None),
        (-1e-30, 1e-30, 1.0),  # scale does not matter
    ],
)
def test_ratio(smallest: float, largest: float, ratio: float | None) -> None:
    assert convexity_ratio(smallest, largest) == (None if ratio is None else pytest.approx(ratio))


@dataclass
class Quadratic:
    """A surrogate whose Hessian's spectrum is -1, 0, 3, and that notes what was asked of it. Agents acted in
    every `every`-th transition."""

    size: int = 1000
    every: int = 1
    asked: list[tuple[Objective, Tensor]] = field(default_factory=list)
    spectrum: tuple[float, ...] = (-1.0, 0.0, 3.0)

    @property
    def drawable(self) -> Tensor:
        return torch.arange(0, self.size, self.every)

    def function(self, objective: Objective, rows: Tensor) -> Function:
        self.asked.append((objective, rows))
        theta = torch.zeros(len(self.spectrum), requires_grad=True)
        diagonal = torch.tensor(self.spectrum)
        return Function([lambda: 0.5 * (diagonal * theta**2).sum()], [theta])


def detector(transitions: int = 64, seed: int = 0, **scaling: object) -> Detector:
    return Detector(GivenScaling.model_validate(scaling), seed, transitions)


@pytest.mark.parametrize(
    ("preset", "environment", "m"),
    [
        ("paper", "Hopper-v5", 8 * 512),
        ("tuned", "Hopper-v5", 4 * 512),
        ("paper", "ALE/SpaceInvaders-v5", 8 * 16),
        ("tuned", "ALE/SpaceInvaders-v5", 128),  # not all of 4 * 256
    ],
)
def test_as_many_transitions_are_measured_as_every_round_has_but_not_too_many_images(
    preset: str, environment: str, m: int
) -> None:
    assert transitions(job(preset, environment__id=environment).spec) == m


def test_measures_the_surrogate_and_says_how() -> None:
    measurement = detector().measure(Quadratic(), 1)
    assert measurement.ratio == pytest.approx(3.0, rel=1e-4)
    assert measurement.lambda_min == pytest.approx(-1.0, rel=1e-4)
    assert measurement.lambda_max == pytest.approx(3.0, rel=1e-4)
    assert measurement.iterations <= 3
    assert measurement.converged
    assert measurement.seconds > 0


def test_draws_the_same_number_of_distinct_transitions_each_round_by_seed_and_round() -> None:
    surrogate = Quadratic()
    for seed, round_ in ((0, 1), (0, 1), (0, 2), (1, 1)):
        detector(seed=seed).measure(surrogate, round_)
    drawn = [rows.numpy() for _, rows in surrogate.asked]
    for rows in drawn:
        assert len(np.unique(rows)) == len(rows) == 64
        assert rows.min() >= 0
        assert rows.max() < 1000
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert not np.array_equal(drawn[0], drawn[2])
    assert not np.array_equal(drawn[0], drawn[3])


@pytest.mark.parametrize(("every", "drawn"), [(2, 64), (10, 64), (20, 50)])
def test_draws_as_many_transitions_in_which_agents_acted_or_all_of_them(every: int, drawn: int) -> None:
    surrogate = Quadratic(every=every)
    detector().measure(surrogate, 1)
    ((_, rows),) = surrogate.asked
    assert len(rows.unique()) == len(rows) == drawn
    assert not (rows % every).any()


def test_draws_uniformly_across_actors() -> None:
    surrogate = Quadratic(size=200)
    for round_ in range(400):
        detector(transitions=50).measure(surrogate, round_)
    counts = np.bincount(np.concatenate([rows.numpy() for _, rows in surrogate.asked]), minlength=200)
    assert counts.mean() == 100
    assert counts.min() > 60
    assert counts.max() < 140  # 4.6 standard deviations


def test_refuses_fewer_transitions() -> None:
    with pytest.raises(ValueError, match="round 3 has 63 transitions, the detector needs 64"):
        detector().measure(Quadratic(size=63), 3)


def test_a_flat_hessian_is_a_failure() -> None:
    measurement = detector().measure(Quadratic(spectrum=(0.0, 0.0)), 1)
    assert measurement.ratio is None


@pytest.mark.parametrize(
    ("scaling", "objective"),
    [({}, "clip"), ({"surrogate": "ratio1"}, "ratio1"), ({"mode": "artifact"}, "total")],
)
def test_asks_for_the_objective_that_the_job_names(scaling: dict[str, object], objective: str) -> None:
    surrogate = Quadratic()
    detector(**scaling).measure(surrogate, 1)
    assert surrogate.asked[0][0] == objective


def ppo(preset: str = "paper") -> tuple[Ppo, UpdateResult]:
    spec = job(preset, network__hiddenSizes=[16, 16], algorithm__hyperparameters__epochs=3).spec
    algorithm = learner_of(spec, HOPPER)
    return algorithm, algorithm.update([fragment(slot) for slot in range(4)], 1)[DEFAULT_POLICY]


def dense(function: Function) -> Tensor:
    """The Hessian by autograd, row by row."""
    value = sum(term() for term in function.terms)
    assert isinstance(value, Tensor)
    grads = torch.autograd.grad(value, list(function.parameters), create_graph=True)
    flat = torch.cat([g.flatten() for g in grads])
    rows = [torch.autograd.grad(g, list(function.parameters), retain_graph=True) for g in flat]
    return torch.stack([torch.cat([r.flatten() for r in row]) for row in rows])


@pytest.mark.parametrize("objective", ["clip", "ratio1", "total"])
def test_the_objectives_of_ppo_equal_their_definitions(objective: Objective) -> None:
    algorithm, result = ppo()
    samples = result.surrogate.samples
    rows = torch.arange(0, 256, 2)
    function = result.surrogate.function(objective, rows)
    drawn = samples.rows(rows)
    network, family = module_of(algorithm), parts_of(algorithm)[0].family
    params = network.policy(drawn.observations)
    ratio = torch.exp(family.log_prob(params, drawn.actions) - drawn.log_probs)
    clipped = torch.min(ratio * drawn.advantages, ratio.clamp(0.7, 1.3) * drawn.advantages).mean()
    if objective == "clip":
        expected = clipped
    elif objective == "ratio1":
        expected = drawn.advantages.mean()
    else:
        kl = family.kl(drawn.distribution, params).mean()
        error = (network.critic(drawn.observations)[:, 0] - drawn.returns) ** 2
        expected = -clipped + 0.2 * kl + error.clamp(max=10).mean()
    assert sum(term().item() for term in function.terms) == pytest.approx(expected.item(), rel=1e-5, abs=1e-6)
    which = network if objective == "total" else network.policy
    assert sum(p.numel() for p in function.parameters) == sum(p.numel() for p in which.parameters())


@pytest.mark.parametrize("name", ["ppo", "impact"])
def test_the_policy_objective_standardises_advantages_independent_of_the_loss(name: str) -> None:
    """Shifted by c, the advantages would add c times the curvature of E[r], which is none of J's."""
    overrides = {"network__hiddenSizes": [16], "environment__rolloutLength": 64, "algorithm__name": name}
    overrides["algorithm__hyperparameters__standardiseAdvantages"] = "'off'"
    algorithm = learner_of(job("paper", **overrides).spec, HOPPER)
    fragments = [fragment(slot) for slot in range(4)]
    for each in fragments:
        plain(each)["rewards"] += 1  # more than the critic foresees, so the advantages' mean is far from 0
    if isinstance(algorithm, Ppo):
        found = algorithm.update(fragments, 1)[DEFAULT_POLICY].surrogate
    else:
        algorithm.take(fragments)
        found = algorithm.end_round(1)[DEFAULT_POLICY].surrogate
    advantages = found.samples.advantages
    assert abs(advantages.mean()) > 0.1
    wanted = found.samples.with_advantages((advantages - advantages.mean()) / advantages.std(correction=0))
    same = surrogate_of(found.network, found.theta, wanted, found.coefficients)
    raw = surrogate_of(found.network, found.theta, found.samples, found.coefficients)
    for settings, expected in ({}, same), ({"surrogate": "ratio1"}, same), ({"mode": "artifact"}, raw):
        measured, control = (detector(256, **settings).measure(each, 1) for each in (found, expected))
        assert measured.lambda_min == pytest.approx(control.lambda_min, rel=1e-5)
        assert measured.lambda_max == pytest.approx(control.lambda_max, rel=1e-5)
    apart = detector(256).measure(raw, 1).lambda_min
    assert abs(apart / detector(256).measure(found, 1).lambda_min - 1) > 0.01


@pytest.mark.parametrize("preset", ["paper", "tuned"])
def test_advantages_that_the_loss_standardised_are_measured_to_the_bit(preset: str) -> None:
    """Standardised twice, advantages differ in their last bits, and with them every published R."""
    _, result = ppo(preset)
    chunk = result.surrogate.function("clip", torch.arange(256)).terms[0]
    assert isinstance(chunk, partial)
    assert torch.equal(chunk.args[2].advantages, result.surrogate.samples.advantages)


def surrogate_of(network: ActorCritic, theta: Bound, samples: Samples, c: Coefficients) -> PpoSurrogate:
    return PpoSurrogate(network, theta, samples, c, None, None, agents=1)


@pytest.mark.slow
def test_ratio1_is_indifferent_to_a_shift_of_the_advantages() -> None:
    """As an expectation of r A is: E[r] = 1 whatever the parameters. E[log pi A] is not."""
    network = module(2, [8], {"kind": "discrete", "n": 4})
    with torch.no_grad():
        for p in network.policy.head.parameters():
            p.zero_()  # a uniform policy: one sample of each action is its exact expectation
    hessians = []
    for shift in (0.0, 5.0):
        samples = Samples(
            observations=torch.ones(4, 2),
            actions=torch.arange(4),
            log_probs=torch.zeros(4),
            distribution=torch.zeros(4, 4),
            advantages=torch.tensor([1.0, -2.0, 0.5, 0.3]) + shift,
            returns=torch.zeros(4),
        )
        c = Coefficients(0.3, 0, 0, 1, math.inf)
        surrogate = surrogate_of(network.shape, network.bound(), samples, c)
        hessians.append(dense(surrogate.function("ratio1", torch.arange(4))))
    assert hessians[0].abs().max() > 0.01
    torch.testing.assert_close(hessians[0], hessians[1], rtol=0, atol=1e-5)


def test_the_ratio_of_a_ppo_round_is_that_of_the_dense_hessian() -> None:
    _, result = ppo()
    measurement = Detector(GivenScaling(), 0, 256).measure(result.surrogate, 1)
    spectrum = torch.linalg.eigvalsh(dense(result.surrogate.function("clip", torch.arange(256))).double())
    assert measurement.lambda_min == pytest.approx(spectrum[0].item(), rel=5e-3)
    assert measurement.lambda_max == pytest.approx(spectrum[-1].item(), rel=5e-3)
    assert measurement.ratio == pytest.approx(-(spectrum[-1] / spectrum[0]).item(), rel=1e-2)


@pytest.mark.parametrize("objective", ["clip", "ratio1", "total"])
@pytest.mark.parametrize("head", ["multiCategorical", "bernoulli"])
def test_the_hessian_of_several_whole_numbers_is_that_of_finite_differences(
    head: str, objective: Objective
) -> None:
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    sizes = (2, 3) if head == "multiCategorical" else (2,) * 5
    distribution = MultiCategorical(sizes) if head == "multiCategorical" else Bernoulli()
    actions = torch.stack([torch.randint(size, (40,), generator=generator) for size in sizes], 1)
    old = normal(40, 5)
    samples = Samples(
        normal(40, 3), actions, distribution.log_prob(old, actions), old, normal(40), normal(40)
    )
    action: dict[str, Any] = {"kind": "multiBinary", "n": 5, "shape": [5]}
    if head == "multiCategorical":
        action = {"kind": "multiDiscrete", "sizes": [2, 3], "shape": [2], "start": [0, 0], "dtype": "int64"}
    network = module(3, [6], action, seed=1).double()
    with torch.no_grad():
        for p in network.parameters():
            p.copy_(normal(*p.shape))
    c = Coefficients(clip=5, kl=0.3, entropy=0.2, value=0.5, value_clip=math.inf)  # no corners nearby
    surrogate = surrogate_of(network.shape, network.bound(), samples, c)
    function = surrogate.function(objective, torch.arange(40))
    parameters = list(function.parameters)
    direction = [normal(*p.shape) for p in parameters]

    def gradient(step: float) -> Tensor:
        with torch.no_grad():
            for p, d in zip(parameters, direction, strict=True):
                p.add_(d, alpha=step)
        value = torch.stack([term() for term in function.terms]).sum()
        found = torch.autograd.grad(value, parameters)
        with torch.no_grad():
            for p, d in zip(parameters, direction, strict=True):
                p.sub_(d, alpha=step)
        return torch.cat([g.flatten() for g in found])

    expected = (gradient(1e-5) - gradient(-1e-5)) / 2e-5
    if objective == "ratio1":  # its ratio is taken at the present parameters, so the difference is another
        expected = dense(function) @ torch.cat([d.flatten() for d in direction])
    with Hessian(function) as operator:
        found = operator(torch.cat([d.flatten() for d in direction]))
    assert expected.norm() > 0.01
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-7)


def test_measuring_leaves_the_algorithm_as_it_was() -> None:
    algorithm, result = ppo("tuned")
    before, again = parts_of(algorithm)[1].clone(), ppo("tuned")[0]
    first = Detector(GivenScaling(), 0, 256).measure(result.surrogate, 1)
    assert Detector(GivenScaling(), 0, 256).measure(result.surrogate, 1).ratio == first.ratio
    assert torch.equal(parts_of(algorithm)[1], before)
    following = [fragment(slot, seed=1) for slot in range(4)]
    algorithm.update(following, 2)
    again.update(following, 2)
    assert torch.equal(parts_of(algorithm)[1], parts_of(again)[1])
