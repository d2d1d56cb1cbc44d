"""Groups: how many policies agents share, which agents share one, and whose policy a group goes on with.

Agents that may share are those of one class that learn by one algorithm; such agents are called a pool here.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

STARTS = 10
"""Number of starts of K-Means. The best result is kept."""

Reason = Literal["convexity ratio", "return", "order"]
"""What decided on a group's base."""


def policy_count(agents: int, sharing: int) -> int:
    """N', the number of policies of all agents while they share for the `sharing`-th time, from 1.

    N' = min(2^j, the largest power of two below N). MARLess prints 2^(floor(log2 N) + 1) as the limit. That
    is more than N, so after a few times no agents would share.
    """
    if agents < 2:
        raise ValueError(f"{agents} agent cannot share; at least 2 can")
    return int(min(2**sharing, 2 ** math.ceil(math.log2(agents) - 1)))


def share_of(policies: int, pool: int, agents: int) -> int:
    """How many of `policies` a pool gets that has `pool` of all `agents`.

    It is the pool's share, rounded half up, and at least 1.
    """
    return max(1, math.floor(policies * pool / agents + 0.5))


def cluster(distances: NDArray[np.float64], count: int, seed: Sequence[int]) -> list[list[int]]:
    """K-Means on the rows of a matrix of distances.

    Args:
        distances: symmetric, f64 [n, n].
        seed: equal seeds give equal groups.

    Returns:
        Indices of each group, ascending; groups ordered by their first index. There are fewer than `count`
        groups where fewer rows differ.
    """
    rows, same = np.unique(distances, axis=0, return_inverse=True)
    labels = same.reshape(-1).tolist() if len(rows) <= count else _best_labels(distances, count, seed)
    groups: dict[int, list[int]] = {}
    for index, label in enumerate(labels):
        groups.setdefault(label, []).append(index)
    return list(groups.values())


def _best_labels(rows: NDArray[np.float64], count: int, seed: Sequence[int]) -> list[int]:
    """The labels of the start whose rows are closest to their centroids."""
    # Imported only now: it takes a second, and most runs do not need it.
    from scipy.cluster import vq

    candidates: list[tuple[float, list[int]]] = []
    for start in range(STARTS):
        generator = np.random.default_rng([*seed, start])
        try:
            centroids, labels = vq.kmeans2(rows, count, minit="++", missing="raise", rng=generator)
        except vq.ClusterError:  # a cluster ran empty: the other starts decide
            continue
        candidates.append((float(((rows - centroids[labels]) ** 2).sum()), labels.tolist()))
    if not candidates:  # every start failed: the agents hardly differ
        return [0] * len(rows)
    return min(candidates, key=lambda item: item[0])[1]


def random_groups(agents: int, count: int, seed: Sequence[int]) -> list[list[int]]:
    """A random partition of the indices below `agents` into `count` groups, none of them empty.

    Every group first gets one agent. Each remaining agent then gets a random group. Ordered as in `cluster`.
    """
    generator = np.random.default_rng(list(seed))
    order = generator.permutation(agents).tolist()
    count = min(count, agents)
    groups = [[agent] for agent in order[:count]]
    for agent in order[count:]:
        groups[int(generator.integers(count))].append(agent)
    return sorted(sorted(group) for group in groups)


def base(
    members: Sequence[str], ratios: Mapping[str, float | None], returns: Mapping[str, float]
) -> tuple[str, Reason]:
    """The agent whose policy a group goes on with, and what decided.

    The highest convexity ratio wins (MARLess). A missing ratio loses against all. Between equal ratios
    the highest return decides, then the order.

    Args:
        ratios: convexity ratio of each agent's policy.
        returns: return of each agent in the newest round; a missing one loses against all.
    """

    def rank(agent: str) -> tuple[float, float]:
        ratio = ratios.get(agent)
        return (-math.inf if ratio is None else ratio, returns.get(agent, -math.inf))

    best = max(members, key=rank)  # of equals the first
    others = [rank(agent) for agent in members if agent != best]
    if all(rank(best)[0] > other[0] for other in others):
        return best, "convexity ratio"
    return best, "return" if all(rank(best) > other for other in others) else "order"
