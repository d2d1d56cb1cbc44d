"""How much of an update is done."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from nitro_learner.algorithms.epochs import epochs, part, reporting_to


def test_each_epoch_says_how_much_is_done() -> None:
    told: list[float] = []
    with reporting_to(told.append):
        assert list(epochs(4)) == [0, 1, 2, 3]
    assert told == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert list(epochs(2)) == [0, 1], "nobody listens any more"
    assert len(told) == 5


def test_policies_that_learn_one_after_the_other_are_parts_of_one_update() -> None:
    told: list[float] = []
    with reporting_to(told.append):
        for index in range(2):
            with part(index, 2):
                list(epochs(2))
    assert told == [0.0, 0.25, 0.5, 0.5, 0.75, 1.0]


def test_another_thread_has_its_own_listener() -> None:
    told: list[float] = []
    with reporting_to(told.append), ThreadPoolExecutor(1) as pool:
        pool.submit(list, epochs(3)).result()
    assert told == []
