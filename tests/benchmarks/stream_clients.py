"""One client of bench_stored_jobs.py's scripted API server: kopf's streams, or the operator's watch.

    python tests/benchmarks/stream_clients.py kopf|ours URL JOBS CHANGES

Both put every job into the operator's cache. It prints two lines of JSON, when it has all jobs and when it
has all changes: the seconds of CPU since it began to read, and its memory in KiB.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kopf
from kubernetes.aio.client import ApiClient, Configuration

from nitro_operator.kube.cache import Cache
from nitro_operator.kube.client import Kube
from nitro_operator.kube.kinds import TRAINING_JOB, Kind, Object
from nitro_operator.kube.watch import Watch

SETTLE_SECONDS = 7.0
"""kopf keeps a worker for each object for five seconds after its last event."""

Notice = Callable[[Object], None]


async def ours(url: str, notice: Notice) -> None:
    configuration = Configuration()
    configuration.host = url
    kube = Kube(ApiClient(configuration))

    def changed(_: Kind, event: Object) -> None:
        notice(event["object"])

    for job in await kube.list(TRAINING_JOB, None):
        notice(job)
    await Watch(kube, TRAINING_JOB, None, changed, lambda _: None).run()


async def kopfs(url: str, notice: Notice) -> None:
    registry, settings = kopf.OperatorRegistry(), kopf.OperatorSettings()
    settings.watching.chunk_size = 5  # as PAGE_JOBS of kube/client.py
    settings.scanning.disabled = True

    @kopf.on.login(registry=registry)
    def login(**_: Any) -> kopf.ConnectionInfo:
        return kopf.ConnectionInfo(server=url, token="t")

    @kopf.on.event(TRAINING_JOB.group, TRAINING_JOB.version, TRAINING_JOB.plural, registry=registry)
    async def changed(event: Object, **_: Any) -> None:
        notice(event["object"])

    await kopf.operator(registry=registry, settings=settings, clusterwide=True, standalone=True)


async def measure(how: Callable[[str, Notice], Any], url: str, jobs: int, changes: int) -> None:
    cache, versions = Cache(), set[str]()
    reached = {jobs: asyncio.Event(), jobs + changes: asyncio.Event()}

    def notice(job: Object) -> None:
        cache.put(TRAINING_JOB, job)
        versions.add(job["metadata"]["resourceVersion"])
        if len(versions) in reached:
            reached[len(versions)].set()

    began = time.process_time()
    watching = asyncio.create_task(how(url, notice))
    for enough in reached.values():
        await enough.wait()
        await asyncio.sleep(SETTLE_SECONDS)
        gc.collect()
        assert not watching.done()
        print(json.dumps({"cpu": time.process_time() - began, "kib": resident_kib()}), flush=True)
    os._exit(0)  # kopf would end in an orderly way, which nobody measures


def resident_kib() -> int:
    found = re.search(r"^VmRSS:\s+(\d+)", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1])


if __name__ == "__main__":
    program, address, *numbers = sys.argv[1:]
    asyncio.run(measure({"kopf": kopfs, "ours": ours}[program], address, *map(int, numbers)))
