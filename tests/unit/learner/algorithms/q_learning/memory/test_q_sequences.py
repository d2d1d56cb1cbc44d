"""Sequences in the replay buffer, by hand: which rows they have, where memories end, and what is drawn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from agents_support import agent_class
from nitro_learner.algorithms.agents.team import TeamMisfit
from nitro_learner.algorithms.q_learning.memory.model import priority_errors
from nitro_learner.algorithms.replay.transitions import Shape
from recurrent_q_support import SIZE, Watched, learner_of, remembering

ONE = agent_class(agents=2, size=3)
SETTINGS: dict[str, Any] = {"batchSize": 8, "replayRatio": 1.0, "bufferSize": 40}


def by_hand(seed: int = 0) -> Any:
    """Two environments of 4 steps. The first is truncated at step 1, and its agent 1 dies at step 2; the
    second is terminated at step 2."""
    fragment = remembering(ONE, length=4, envs=2, ends=0.0, seed=seed)
    tensors, fields = fragment.tensors, fragment.by_class["agent"]
    tensors["truncated"][1, 0] = tensors["terminated"][2, 1] = True
    fields["died"][2, 1] = fields["died"][2, 0, 1] = True
    fields["alive"][3, 0, 1] = False
    fields["final_observations"] = np.full((1, 2, 3), 9.0, np.float32)
    return fragment


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    return Watched(monkeypatch)


def test_memories_end_with_episodes_and_deaths_and_what_follows_has_them(watched: Watched) -> None:
    fragment = by_hand()
    learner_of(ONE, algorithm="iql", settings=SETTINGS).update([fragment], 1)
    rows, trainer = watched.rows, watched.trainer
    # 8 steps, the end of the truncated episode, and two rollouts' ends.
    assert len(rows) == 11
    # The first agent in the first environment, the second in the second, and so on.
    agents, columns = trainer.turn(8, 0)
    np.testing.assert_array_equal(agents["agent"], [[0] * 8, [1] * 8])
    places = np.array([[0, 2, 4, 6, 1, 3, 5, 7]] * 2)
    np.testing.assert_array_equal(watched.replay.along(np.array([0, 1]), 4, 2).ravel(), places[0])
    batch: Any = trainer.gather(rows, agents, columns, places).by_class["agent"]
    fields, memory = fragment.by_class["agent"], batch.steps.memory
    for agent in (0, 1):
        np.testing.assert_array_equal(memory.before[agent], fields["memory"][:, agent])
    # By step, agent and environment: what is remembered ends behind steps 1 and 2.
    keep = memory.keep[..., 0].numpy()
    np.testing.assert_array_equal(keep[:, 0], [[1, 1], [1, 1], [0, 1], [1, 0]])
    np.testing.assert_array_equal(keep[:, 1], [[1, 1], [1, 1], [0, 1], [0, 0]])
    # What follows a truncated step is seen with the memory after it.
    carried = batch.carried[..., 0].numpy()
    np.testing.assert_array_equal(carried, [[1, 1, 1, 1, 1, 1, 0, 1], [1, 1, 0, 0, 1, 1, 0, 1]])
    np.testing.assert_array_equal(batch.following[0, 1], [9, 9, 9])
    np.testing.assert_array_equal(batch.following[0, 3], fields["last_observations"][0, 0])
    np.testing.assert_array_equal(batch.steps.acted[1], [1, 1, 1, 0, 1, 1, 1, 1])


def test_a_memory_lies_in_parts_in_the_rows_of_its_sequence(watched: Watched) -> None:
    fragment = by_hand()
    learner_of(ONE, algorithm="vdn", settings=SETTINGS).update([fragment], 1)
    arrays = watched.rows.arrays
    assert arrays["agent/memory"].shape == (11, 2, 2)  # five numbers in four rows
    places, agents = np.array([[[0, 2, 4, 6], [1, 3, 5, 7]]]), np.array([[[1], [0]]])
    found = arrays["agent/memory"][places, agents].reshape(1, 2, -1)[..., :SIZE]
    expected = fragment.by_class["agent"]["memory"]
    np.testing.assert_array_equal(found[0], [expected[0, 1], expected[1, 0]])


def test_only_whole_sequences_are_drawn_and_a_round_leaves_as_a_whole(watched: Watched) -> None:
    learner = learner_of(ONE, algorithm="iql", settings=SETTINGS)
    for round in range(1, 6):
        learner.update([by_hand(round)], round)
        # 11 rows of a round, in a ring of 40.
        first = [11 * (one - 1) + env for one in range(max(1, round - 2), round + 1) for env in (0, 1)]
        drawable = np.argwhere(watched.replay.drawable[:, 0])[:, 0]
        assert sorted(drawable) == sorted(np.array(first) % 40)
        np.testing.assert_array_equal(watched.replay.counts, [len(first)] * 2)
        acted = watched.model.trained_on(watched.replay, Shape(4, 2)).sum(0)
        np.testing.assert_array_equal(acted, [8 * len(first) / 2, 7 * len(first) / 2])


def test_a_round_larger_than_the_buffer_leaves_its_last_fragments(watched: Watched) -> None:
    learner = learner_of(ONE, algorithm="iql", settings=SETTINGS | {"bufferSize": 23})
    learner.update([by_hand(), by_hand(1), by_hand(2)], 1)
    assert watched.replay.counts.tolist() == [4, 4]
    small = learner_of(ONE, algorithm="iql", settings=SETTINGS | {"bufferSize": 10})
    with pytest.raises(TeamMisfit, match="bufferSize: 10 is less than the 11 transitions"):
        small.update([by_hand()], 1)


def test_a_sequence_without_the_agent_is_not_drawn_for_it(watched: Watched) -> None:
    learner, fragment = learner_of(ONE, algorithm="iql", settings=SETTINGS), by_hand()
    fragment.by_class["agent"]["alive"][:, 1, 1] = False
    learner.update([fragment], 1)
    assert watched.replay.counts.tolist() == [2, 1]
    learner_of(ONE, algorithm="vdn", settings=SETTINGS).update([fragment], 1)
    assert watched.replay.counts.tolist() == [2]  # the team acted


@pytest.mark.parametrize(("batch", "steps"), [(3, 4), (8, 2), (15, 1), (16, 1)])
def test_a_batch_has_as_many_transitions_as_the_setting_says_in_whole_sequences(
    batch: int, steps: int
) -> None:
    """16 transitions to train on: four sequences of 4 steps."""
    settings = SETTINGS | {"batchSize": batch, "replayRatio": 2.0}
    learner = learner_of(ONE, algorithm="iql", settings=settings)
    stats = learner.update([by_hand()], 1)["agent_0"].stats
    assert stats["gradient_steps"] == steps


def test_agents_that_share_a_policy_fill_its_sequences_in_turn(watched: Watched) -> None:
    learner = learner_of(ONE, algorithm="iql", settings=SETTINGS, agent_ids=True)
    learner.update([by_hand()], 1)
    agents, columns = watched.trainer.turn(8, 1)
    np.testing.assert_array_equal(agents["agent"], [[1] * 4 + [0] * 4])
    np.testing.assert_array_equal(columns, [[1] * 4 + [0] * 4])


def test_a_priority_is_of_the_largest_and_of_the_mean_error() -> None:
    errors = np.array([[1.0, -3.0, 2.0, 9.0], [0.5, 0.0, 0.0, 0.0]], np.float32)
    acted = np.array([[True, True, True, False], [True, False, False, False]])
    np.testing.assert_allclose(priority_errors(errors, acted), [0.9 * 3 + 0.1 * 2, 0.5], rtol=1e-6)


def test_fragments_of_several_shapes_are_refused() -> None:
    learner = learner_of(ONE, algorithm="iql", settings=SETTINGS)
    with pytest.raises(ValueError, match="needs fragments of one shape"):
        learner.update([by_hand(), remembering(ONE, length=3, envs=2)], 1)
