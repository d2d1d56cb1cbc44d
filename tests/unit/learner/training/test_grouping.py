"""Groups: how many, who with whom, and whose policy goes on."""

import numpy as np
import pytest

from nitro_learner.training.sharing.groups import base, cluster, policy_count, random_groups, share_of


@pytest.mark.parametrize(
    ("agents", "expected"),
    [
        (2, [1, 1, 1]),
        (3, [2, 2, 2]),
        (4, [2, 2, 2]),
        (5, [2, 4, 4]),
        (6, [2, 4, 4]),
        (7, [2, 4, 4]),
        (8, [2, 4, 4]),
        (9, [2, 4, 8]),
        (10, [2, 4, 8]),
    ],
)
def test_policies_of_the_first_three_sharings(agents: int, expected: list[int]) -> None:
    assert [policy_count(agents, sharing) for sharing in (1, 2, 3)] == expected


def test_there_are_always_fewer_policies_than_agents() -> None:
    for agents in range(2, 70):
        for sharing in range(1, 10):
            assert 1 <= policy_count(agents, sharing) < agents


def test_one_agent_cannot_share() -> None:
    with pytest.raises(ValueError, match="1 agent cannot share"):
        policy_count(1, 1)


def test_a_pool_gets_its_share_of_the_policies_and_at_least_one() -> None:
    # simple_adversary: the adversary stays alone, and so do the two others as a pair.
    assert [share_of(2, pool, 3) for pool in (1, 2)] == [1, 1]
    assert [share_of(4, pool, 6) for pool in (1, 2, 3)] == [1, 1, 2]
    assert share_of(4, 3, 8) == 2, "1.5 is rounded up"


def distances(points: list[float]) -> np.ndarray:
    line = np.array(points, np.float64)
    return np.abs(line[:, None] - line)


def test_similar_agents_share_a_group() -> None:
    found = cluster(distances([0.0, 5.0, 0.1, 5.2, 0.2, 5.1]), 2, [0])
    assert found == [[0, 2, 4], [1, 3, 5]]


def test_groups_minimise_the_squared_distance_to_their_centroids() -> None:
    """Against all partitions of six agents into at most three groups."""
    generator = np.random.default_rng(2)
    for seed in range(8):
        points = generator.normal(size=(6, 4))
        matrix = np.linalg.norm(points[:, None] - points, axis=2)

        def cost(labels: np.ndarray, rows: np.ndarray = matrix) -> float:
            parts = (rows[labels == label] for label in np.unique(labels))
            return sum(float(((part - part.mean(axis=0)) ** 2).sum()) for part in parts)

        best = min(cost(np.array([code // 3**i % 3 for i in range(6)])) for code in range(3**6))
        found = cluster(matrix, 3, [seed])
        labels = np.empty(6, int)
        for label, group in enumerate(found):
            labels[group] = label
        assert cost(labels) == pytest.approx(best)


def test_equal_seeds_give_equal_groups() -> None:
    matrix = distances(np.random.default_rng(1).normal(size=40).tolist())
    assert cluster(matrix, 8, [4, 5]) == cluster(matrix, 8, [4, 5])


def test_agents_that_do_not_differ_make_one_group() -> None:
    assert cluster(np.zeros((4, 4)), 2, [0]) == [[0, 1, 2, 3]]
    assert cluster(distances([0, 1, 0, 1]), 4, [0]) == [[0, 2], [1, 3]]


def test_random_groups_are_a_partition_without_an_empty_group() -> None:
    for seed in range(50):
        found = random_groups(6, 4, [seed])
        assert len(found) == 4
        assert sorted(agent for group in found for agent in group) == list(range(6))
        assert all(found)
    assert random_groups(2, 5, [0]) == [[0], [1]]


def test_random_groups_put_every_pair_together_equally_often() -> None:
    count = np.zeros((6, 6))
    for seed in range(3000):
        for group in random_groups(6, 2, [seed]):
            count[np.ix_(group, group)] += 1
    shares = count[~np.eye(6, dtype=bool)] / 3000
    assert shares.max() - shares.min() < 0.06
    assert random_groups(6, 2, [1]) == random_groups(6, 2, [1])


@pytest.mark.parametrize(
    ("ratios", "returns", "expected"),
    [
        ({"a": 1.0, "b": 3.0, "c": 2.0}, {"a": 9, "b": 1, "c": 5}, ("b", "convexity ratio")),
        ({"a": 3.0, "b": 3.0, "c": 2.0}, {"a": 1, "b": 9, "c": 5}, ("b", "return")),
        ({"a": 3.0, "b": 3.0, "c": 2.0}, {"a": 1, "b": 1, "c": 5}, ("a", "order")),
        ({"a": None, "b": None, "c": None}, {"a": 1, "b": 1, "c": 5}, ("c", "return")),
        ({"a": None, "b": 0.01, "c": None}, {"a": 9, "b": 1, "c": 5}, ("b", "convexity ratio")),
        ({}, {}, ("a", "order")),
        ({"a": 2.0, "b": 2.0}, {"b": -80}, ("b", "return")),
    ],
)
def test_the_base_has_the_highest_ratio_then_the_highest_return_then_comes_first(
    ratios: dict[str, float | None], returns: dict[str, float], expected: tuple[str, str]
) -> None:
    assert base(["a", "b", "c"], ratios, returns) == expected
