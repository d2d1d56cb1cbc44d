"""The circular buffer: which batches it holds, how often each is drawn, and that draws are uniform."""

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nitro_learner.algorithms.impact.replay import CircularBuffer


@given(
    capacity=st.integers(1, 5),
    uses=st.integers(1, 4),
    steps=st.lists(st.sampled_from(["add", "draw"]), max_size=80),
    seed=st.integers(0, 1000),
)
def test_the_buffer_keeps_the_newest_batches_for_a_number_of_uses(
    capacity: int, uses: int, steps: list[str], seed: int
) -> None:
    buffer: CircularBuffer[int] = CircularBuffer(capacity, uses)
    generator = np.random.default_rng(seed)
    added, drawn = 0, Counter[int]()
    for step in steps:
        if step == "add":
            buffer.add(added)
            added += 1
            continue
        usable = [n for n in range(max(0, added - capacity), added) if drawn[n] < uses]
        batch = buffer.draw(generator)
        if batch is None:
            assert not usable
        else:
            assert batch in usable
            drawn[batch] += 1


@given(capacity=st.integers(1, 6), uses=st.integers(1, 5))
def test_every_batch_can_be_drawn_all_its_uses(capacity: int, uses: int) -> None:
    buffer: CircularBuffer[int] = CircularBuffer(capacity, uses)
    for batch in range(capacity):
        buffer.add(batch)
    generator = np.random.default_rng(0)
    drawn = Counter(buffer.draw(generator) for _ in range(capacity * uses))
    assert drawn == dict.fromkeys(range(capacity), uses)
    assert buffer.draw(generator) is None


def test_draws_are_uniform() -> None:
    generator = np.random.default_rng(0)
    firsts = Counter[int | None]()
    for _ in range(4000):
        buffer: CircularBuffer[int] = CircularBuffer(4, 2)
        for batch in range(4):
            buffer.add(batch)
        firsts[buffer.draw(generator)] += 1
    # Four standard deviations of a binomial with 1/4.
    assert all(abs(count - 1000) < 4 * np.sqrt(4000 * 3 / 16) for count in firsts.values())
    assert sorted(firsts) == [0, 1, 2, 3]  # type: ignore[type-var]
