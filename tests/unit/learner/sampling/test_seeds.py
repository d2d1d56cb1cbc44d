"""Seeds: a function of (run seed, round, slot) alone, all different, never shared with evaluations."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nitro_learner.sampling.seeds import evaluation_seed, slot_seed

numbers = st.integers(min_value=0, max_value=2**40)


@given(numbers, numbers, numbers)
def test_a_seed_fits_the_wire_and_repeats(run: int, index: int, slot: int) -> None:
    assert slot_seed(run, index, slot) == slot_seed(run, index, slot)
    assert 0 <= slot_seed(run, index, slot) < 2**63
    assert slot_seed(run, index, slot) != evaluation_seed(run, index, slot)


def test_no_two_slots_of_a_run_share_a_seed() -> None:
    rollouts = {slot_seed(3, index, slot) for index in range(50) for slot in range(64)}
    evaluations = {evaluation_seed(3, index, slot) for index in range(50) for slot in range(64)}
    other = {slot_seed(4, index, slot) for index in range(50) for slot in range(64)}
    assert len(rollouts | evaluations | other) == 3 * 50 * 64


def test_seeds_equal_those_of_earlier_releases() -> None:
    """A changed derivation would change every run that is resumed by a newer release."""
    assert slot_seed(0, 1, 0) == 4324601099084218337
    assert evaluation_seed(0, 1, 0) == 1554199118406742183


def test_negative_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="numbers >= 0"):
        slot_seed(-1, 0, 0)
