"""The replay buffer: what it holds, what it draws, and what its draws weigh."""

import numpy as np
import pytest

from agents_support import agent_class, agents_fragment, team
from nitro_learner.algorithms.replay.buffer import ReplayBuffer, corrections
from nitro_learner.algorithms.replay.transitions import Rows, columns_of, rows_of
from nitro_learner.data.batch import Fragment

ONE = np.zeros((1, 1), np.int64)


def _round(seed: int, *, length: int = 10, state_size: int | None = None) -> tuple[list[Fragment], Rows]:
    built = team(agent_class(size=2, masked=True), algorithm="iql")
    fragments = [
        agents_fragment(
            *built.classes, slot=slot, length=length, ends=0.2, seed=seed, state_size=state_size, deaths=0.1
        )
        for slot in (0, 1)
    ]
    return fragments, rows_of(fragments, built, columns_of(built, joint=False), state=state_size is not None)


def _replay(size: int = 1000, columns: int = 3) -> ReplayBuffer:
    return ReplayBuffer(size, columns, alpha=0.6, epsilon=1e-6)


def test_each_step_leads_to_what_the_agents_saw_next() -> None:
    fragments, rows = _round(0, state_size=4)
    at = 0
    for fragment in fragments:
        fields, cut = fragment.by_class["agent"], 0
        terminated, truncated = (fragment.tensors[name] for name in ("terminated", "truncated"))
        length, envs = terminated.shape
        begin = at
        for t in range(length):
            for e in range(envs):
                row = begin + t * envs + e
                following = row + rows.arrays["following"][row]
                assert np.array_equal(rows.arrays["agent/observations"][row], fields["observations"][t, e])
                assert np.array_equal(rows.arrays["agent/actions"][row], fields["actions"][t, e])
                if terminated[t, e]:
                    assert following == row
                    continue
                if truncated[t, e]:
                    prefix, place = "final_", (cut,)
                    cut += 1
                elif t == length - 1:
                    prefix, place = "last_", (e,)
                else:
                    prefix, place = "", (t + 1, e)
                for name in ("observations", "available"):
                    expected = fields[prefix + name][place]
                    assert np.array_equal(rows.arrays[f"agent/{name}"][following], expected)
                state = fragment.tensors[f"{prefix}global_state"][place]
                assert np.array_equal(rows.arrays["global_state"][following], state)
        at += length * envs + cut + int((~(terminated | truncated)[-1]).sum())
    assert at == len(rows)


def test_only_steps_in_which_an_agent_acted_can_be_drawn() -> None:
    fragments, rows = _round(0)
    replay = _replay()
    replay.append(rows.arrays, rows.drawable)
    acted = sum(int(f.by_class["agent"]["alive"].sum()) for f in fragments)
    assert replay.counts.sum() == acted
    shares = np.random.default_rng(0).random((3, 5000))
    places, _ = replay.draw(np.arange(3)[:, None], shares)
    for agent in range(3):
        assert set(places[agent]) == set(np.flatnonzero(rows.drawable[:, agent]))


def test_a_full_buffer_holds_the_newest_whole_rounds() -> None:
    rounds = [_round(seed)[1] for seed in range(8)]
    size = len(rounds[-1]) + len(rounds[-2]) + 5
    replay = _replay(size)
    for rows in rounds:
        replay.append(rows.arrays, rows.drawable)
    expected = sum(rows.drawable[:, 0].sum() for rows in rounds[-2:])
    assert replay.counts[0] == expected
    places, _ = replay.draw(ONE, np.random.default_rng(0).random((1, 5000)))
    seen = {tuple(row) for row in replay.arrays["agent/observations"][places[0], 0]}
    kept = [rows.arrays["agent/observations"][rows.drawable[:, 0], 0] for rows in rounds[-2:]]
    assert seen == {tuple(row) for row in np.concatenate(kept)}
    following = replay.following(places)
    by_observation = {
        tuple(o[0]): tuple(rows.arrays["agent/observations"][row + rows.arrays["following"][row], 0])
        for rows in rounds[-2:]
        for row, o in enumerate(rows.arrays["agent/observations"])
    }
    for place, after in zip(places[0], following[0], strict=True):
        own = tuple(replay.arrays["agent/observations"][place, 0])
        assert tuple(replay.arrays["agent/observations"][after, 0]) == by_observation[own]


def test_of_a_round_larger_than_the_buffer_the_last_rows_stay() -> None:
    _, rows = _round(0, length=30)
    replay = _replay(50)
    replay.append(rows.arrays, rows.drawable)
    assert replay.counts[1] == rows.drawable[-50:, 1].sum()


def test_priorities_are_powers_of_the_newest_errors() -> None:
    _, rows = _round(0)
    replay = _replay(columns=3)
    replay.append(rows.arrays, rows.drawable)
    learnable = np.flatnonzero(rows.drawable[:, 1])
    errors = np.random.default_rng(1).standard_normal(len(learnable))
    replay.rate(np.ones((1, 1), np.int64), learnable[None], errors[None])
    priorities = (np.abs(errors) + 1e-6) ** 0.6
    shares = (np.arange(100_000) + 0.5)[None] / 100_000
    places, probabilities = replay.draw(np.ones((1, 1), np.int64), shares)
    drawn = np.bincount(np.searchsorted(learnable, places[0]), minlength=len(learnable)) / 100_000
    expected = priorities / priorities.sum()
    assert np.allclose(drawn, expected, atol=2e-5)
    assert np.allclose(probabilities[0], expected[np.searchsorted(learnable, places[0])], rtol=1e-5)


def test_a_new_transition_has_the_largest_priority_so_far() -> None:
    replay = _replay()
    first, second = _round(0)[1], _round(1)[1]
    replay.append(first.arrays, first.drawable)
    row = np.flatnonzero(first.drawable[:, 0])[:1]
    replay.rate(ONE, row[None], np.array([[50.0]]))
    replay.append(second.arrays, second.drawable)
    places, probabilities = replay.draw(ONE, np.random.default_rng(0).random((1, 2000)))
    new = probabilities[places >= len(first)]
    old = probabilities[(places < len(first)) & (places != row)]
    assert np.allclose(new, probabilities[places == row][0])
    assert np.allclose(new[0] / old[0], 50**0.6, rtol=1e-4)


def test_corrections_undo_what_priorities_do_to_a_mean() -> None:
    rng = np.random.default_rng(0)
    probabilities = rng.random(200)
    probabilities /= probabilities.sum()
    each = rng.standard_normal(200)
    full = corrections(np.full((1, 200), 200), probabilities[None], 1.0)[0].astype(np.float64)
    assert full.max() == 1
    assert np.isclose((probabilities * full * each).sum() / (probabilities * full).sum(), each.mean())
    half = corrections(np.full((1, 200), 200), probabilities[None], 0.4)[0]
    assert np.allclose(half, (probabilities.min() / probabilities) ** 0.4, rtol=1e-5)


def test_a_state_of_another_size_is_refused() -> None:
    replay = _replay(100)
    rows = _round(0)[1]
    replay.append(rows.arrays, rows.drawable)
    with pytest.raises(ValueError, match="bufferSize must stay"):
        _replay(200).load_state_dict(replay.state_dict())
