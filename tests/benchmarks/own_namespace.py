"""A namespace for one job of a benchmark, with a volume for its checkpoints; nothing is left of it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import volumes
from harness import Cluster


@contextmanager
def own_namespace(cluster: Cluster, *jobs: str) -> Iterator[str]:
    """Its name; the claims of these jobs can be bound in it."""
    name = f"bench-{uuid.uuid4().hex[:6]}"
    cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    with volumes.disks(cluster, len(jobs)) as disks:
        try:
            for job in jobs:
                disks.provide(name, f"{job}-checkpoint")
            yield name
        finally:
            cluster.core.delete_namespace(name)
            disks.remove(name)
