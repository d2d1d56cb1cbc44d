"""What a measured actor would cost in each setting, by hand."""

from dataclasses import replace

import pytest

from nitro_api.spec.pricing import GivenPricing
from nitro_api.spec.scaling import Scaling
from nitro_learner.studies import profiling
from nitro_learner.studies.profiling import Measured

PRICING = GivenPricing(lambda_gb_second=2e-5, lambda_request=1e-6, pod_gb_second=1e-5, actor_memory_gb=1.0)
MEASURED = Measured(
    peak_bytes=80 * 2**20, start_seconds=0.5, steps=500, seconds=0.3, core_seconds=0.25, rollouts=10
)


def test_below_one_core_time_grows_as_memory_shrinks_and_above_it_stays() -> None:
    by_memory = {choice.memory_mib: choice for choice in profiling.settings(MEASURED, PRICING)}
    assert by_memory[1769].seconds == by_memory[3072].seconds == 0.25
    assert by_memory[256].seconds == pytest.approx(0.25 * 1769 / 256)
    # 250 ms of 1769 MiB, and one request, for 500 steps.
    assert by_memory[1769].dollars == pytest.approx(2 * (0.25 * 1769 / 1024 * 2e-5 + 1e-6))
    assert by_memory[3072].dollars == pytest.approx(2 * (0.25 * 3 * 2e-5 + 1e-6))


def memory_for(peak_mib: int) -> int | None:
    choices = profiling.settings(replace(MEASURED, peak_bytes=peak_mib * 2**20), PRICING)
    best = profiling.recommended(choices)
    return best.memory_mib if best else None


def test_the_fastest_of_the_cheapest_memory_sizes_is_recommended() -> None:
    assert memory_for(80) == 1769
    assert memory_for(1800) == 3072  # with half as much again for room
    assert memory_for(9000) is None


def test_pods_ask_for_a_core_and_the_peak_with_room() -> None:
    assert profiling.requests(MEASURED) == {"cpu": "1", "memory": "128Mi"}
    assert profiling.pod_dollars(MEASURED, PRICING) == pytest.approx(2 * 0.25 * 0.125 * 1e-5)


@pytest.mark.parametrize(("most", "expected"), [(1, 1), (8, 1), (15, 1), (24, 3), (64, 8), (4096, 32)])
def test_the_largest_round_is_about_eight_pods(most: int, expected: int) -> None:
    scaling = Scaling(scaler="nitro", min_actors=1, max_actors=most, initial_actors=1, decay=0.9, window=6)
    assert profiling.per_pod(scaling) == expected
