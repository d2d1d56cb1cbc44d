"""How much agents differ: distances between their policies, or between what they saw and did."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from nitro_actor.actions import WholeNumbers, action_space
from nitro_actor.protocol.agents import AgentClass
from nitro_learner.data.batch import Fragment

OBSERVATIONS = 512
"""Number of observations, of all agents of a pool together, on which their policies are compared."""

SAMPLES = 512
"""Number of pairs of observation and action from which each agent's density is estimated."""

COMPONENTS = 3
"""Number of principal components of these pairs."""

_JITTER = 1e-6
"""Noise along each component, as a share of the components' spread. It makes a density exist where samples
lie on a plane."""


def symmetrised(divergences: NDArray[np.float64]) -> NDArray[np.float64]:
    """Distances f64 [n, n] from divergences KL(i || j) f64 [n, n]: the mean of both directions, 0 on the
    diagonal."""
    distances = (divergences + divergences.T) / 2
    np.fill_diagonal(distances, 0.0)
    return distances


def densities(samples: list[NDArray[np.float64]], seed: list[int]) -> NDArray[np.float64]:
    """KL divergences f64 [n, n] between densities of what agents saw and did: MARLess' own similarity.

    First, every column is divided by its standard deviation, and the samples are projected on the principal
    components of all samples together. A Gaussian kernel estimate with Scott's bandwidth gives each agent's
    density. The divergence of a pair is the mean of log p_i - log p_j over the samples of i. The paper states
    neither the number of components and samples nor the bandwidth.

    Args:
        samples: of each agent, observations beside actions, f64 [m, features], m above `COMPONENTS`.
        seed: of the jitter. Without jitter, samples on a plane would have no density.
    """
    # Imported only now: it takes half a second, and `kde` is seldom asked for.
    from scipy.stats import gaussian_kde

    pooled = np.concatenate(samples)
    spread = pooled.std(axis=0)
    pooled = (pooled - pooled.mean(axis=0))[:, spread > 0] / spread[spread > 0]
    if not pooled.shape[1]:  # all agents saw and did the same, all the time
        return np.zeros((len(samples), len(samples)))
    axes = np.linalg.svd(pooled, full_matrices=False)[2][:COMPONENTS]
    points = pooled @ axes.T
    noise = np.random.default_rng(seed).normal(size=points.shape)
    points = points + _JITTER * points.std() * noise
    ends = np.cumsum([len(rows) for rows in samples])[:-1]
    parts = [part.T for part in np.split(points, ends)]
    kernels = [gaussian_kde(part, bw_method="scott") for part in parts]
    logs = np.array([[kernel.logpdf(part).mean() for kernel in kernels] for part in parts])
    return np.asarray(np.diag(logs)[:, None] - logs)


def lived_rows(fragments: Sequence[Fragment], kind: AgentClass, agent: str) -> dict[str, np.ndarray]:
    """The observations, actions and, where they are masked, available actions of the steps that an agent was
    alive in, [steps, ...] each."""
    index = kind.agents.index(agent)
    names = ("observations", "actions", *(("available",) if kind.action.get("masked") else ()))
    parts: dict[str, list[np.ndarray]] = {name: [] for name in names}
    for fragment in fragments:
        own = fragment.by_class[kind.name]
        alive = own["alive"][:, :, index] if "alive" in own else np.ones(own["rewards"].shape[:2], bool)
        for name, rows in parts.items():
            rows.append(own[name][:, :, index][alive])
    return {name: np.concatenate(rows) for name, rows in parts.items()}


def draw(rows: int, count: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """At most `count` of the indices below `rows`, ascending."""
    return np.sort(generator.choice(rows, min(rows, count), replace=False))


def pairs(
    rows: Mapping[str, np.ndarray], kind: AgentClass, generator: np.random.Generator
) -> NDArray[np.float64]:
    """Observations beside actions of drawn steps, f64 [m, features]; whole numbers one-hot."""
    drawn = draw(len(rows["observations"]), SAMPLES, generator)
    observations, actions = rows["observations"][drawn], rows["actions"][drawn]
    space = action_space(kind.action)
    if isinstance(space, WholeNumbers):
        columns = zip(space.counts.reshape(-1).tolist(), actions.reshape(len(drawn), -1).T, strict=True)
        actions = np.concatenate([np.eye(count)[column] for count, column in columns], axis=1)
    return np.concatenate(
        [observations.reshape(len(drawn), -1), actions.reshape(len(drawn), -1)], axis=1, dtype=np.float64
    )
