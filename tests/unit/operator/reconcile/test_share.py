"""What the pods of a job count for."""

from __future__ import annotations

from typing import cast

from nitro_operator.kube.kinds import JobKey
from nitro_operator.reconcile.share import ActorShares
from nitro_operator.reconcile.sleep import Sleeping
from nitro_operator.scaling.grants import Limits
from nitro_operator.scaling.platform import Platform
from operator_objects import actor_pod


def test_sleepers_that_work_count_as_awake() -> None:
    platform = Platform(Limits(16))
    shares, key = ActorShares(platform, cast("Sleeping", None)), JobKey("a", "one")
    assert platform.ask(key, 4, 4, score=0.5, since=0.0, started=True) == 4
    platform.published(key, 4)
    pods = [actor_pod(f"{n}", cpu="200m" if n < 4 else "1m") for n in range(12)]
    shares.count(key, pods)
    assert platform.room().taken == 4
    shares.count(key, pods, {pod["metadata"]["uid"] for pod in pods[4:6]})
    assert platform.room().taken == 6
