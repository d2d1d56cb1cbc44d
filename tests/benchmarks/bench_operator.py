"""The operator's process on a real API server: memory, reconcile times, idle requests, score-to-scale.

    KUBEBUILDER_ASSETS=... python tests/benchmarks/bench_operator.py

Learners are cheap stand-ins: a pod object whose status says `running`, and a task that reports
status.training every ten seconds as a learner does. Everything else is real: kube-apiserver, etcd, and the
operator in a process of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

SUPPORT = Path(__file__).parents[1] / "support"
sys.path.insert(0, str(SUPPORT))

import aiohttp  # noqa: E402

from apiserver import ApiServer  # noqa: E402
from kube_assets import find_assets  # noqa: E402
from operator_support import OperatorProcess, job, knative_definitions, owner_reference  # noqa: E402

Object = dict[str, Any]
NAMESPACE = "bench"
NITRO = f"/apis/nitro.dev/v1alpha1/namespaces/{NAMESPACE}/nitrotrainingjobs"
KNATIVE = f"/apis/serving.knative.dev/v1/namespaces/{NAMESPACE}"
HEARTBEAT_SECONDS = 10.0
ROUND_SECONDS, ROUNDS = 10.0, 10
"""Scores of different jobs come at random moments of a round."""
HISTORY = [{"round": n, "actors": 8, "rewardMean": 1.0, "score": 0.5, "cost": 0.1} for n in range(1, 61)]
"""A full history, so that a status has its real size."""


class Api:
    """A few API calls over one connection pool."""

    def __init__(self, server: ApiServer) -> None:
        self._url = server.url
        self._session = aiohttp.ClientSession(
            headers={"Authorization": f"Bearer {server.token}"},
            connector=aiohttp.TCPConnector(ssl=False, limit=50),
        )

    async def close(self) -> None:
        await self._session.close()

    async def call(
        self, method: str, path: str, body: Object | None = None, kind: str = "application/json"
    ) -> Object:
        headers = {"Content-Type": kind}
        data = None if body is None else json.dumps(body)
        async with self._session.request(method, self._url + path, data=data, headers=headers) as answer:
            found: Object = json.loads(await answer.read())
            if answer.status >= 400:
                raise RuntimeError(f"{method} {path}: {answer.status} {found.get('message')}")
            return found

    async def merge(self, path: str, patch: Object) -> Object:
        return await self.call("PATCH", path, patch, "application/merge-patch+json")

    async def watch(self, path: str, version: str) -> Any:
        query = f"?watch=true&resourceVersion={version}"
        timeout = aiohttp.ClientTimeout(total=None)
        async with self._session.get(self._url + path + query, timeout=timeout) as answer:
            async for line in answer.content:
                yield json.loads(line)

    async def requests(self) -> float:
        """All requests that the API server has answered to anybody but itself."""
        async with self._session.get(f"{self._url}/metrics") as answer:
            text = await answer.text()
        lines = [line for line in text.splitlines() if line.startswith("apiserver_request_total{")]
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines)


class Learner:
    """Stands in for one learner."""

    def __init__(self, api: Api, name: str) -> None:
        self._api, self.name = api, name
        self._training: Object = {"state": "Running", "round": 0, "requestedActors": 8, "history": HISTORY}
        self.reports = 0

    async def start(self) -> None:
        """Do what Job controller, kubelet and Knative would do."""
        jobs = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs/{self.name}-learner"
        owner = await _until(self._api.call("GET", jobs) for _ in _forever())
        service = await self._api.call("GET", f"{KNATIVE}/services/{self.name}-actors")
        template = service["spec"]["template"]
        revision = {"apiVersion": "serving.knative.dev/v1", "kind": "Revision", **template}
        revision["metadata"] = {**template["metadata"], "ownerReferences": [owner_reference(service)]}
        await self._api.call("POST", f"{KNATIVE}/revisions", revision)
        ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
        await self._api.merge(f"{KNATIVE}/revisions/{self.name}-actors-v1/status", ready)
        pods = f"/api/v1/namespaces/{NAMESPACE}/pods"
        labels = owner["spec"]["template"]["metadata"]["labels"]
        meta = {
            "name": f"{self.name}-learner-x",
            "labels": labels,
            "ownerReferences": [owner_reference(owner)],
        }
        spec = {"containers": [{"name": "learner", "image": "x"}]}
        await self._api.call(
            "POST", pods, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
        )
        running = {"name": "learner", "image": "x", "imageID": "", "ready": True, "restartCount": 0}
        status = {
            "phase": "Running",
            "startTime": _now(),
            "containerStatuses": [{**running, "state": {"running": {}}}],
        }
        await self._api.merge(f"{pods}/{self.name}-learner-x/status", {"status": status})

    async def start_actor(self) -> None:
        """One actor pod, so that pod-seconds grow and are published."""
        pods, name = f"/api/v1/namespaces/{NAMESPACE}/pods", f"{self.name}-actor"
        revision = await self._api.call("GET", f"{KNATIVE}/revisions/{self.name}-actors-v1")
        meta = {
            "name": name,
            "labels": revision["metadata"]["labels"],
            "ownerReferences": [owner_reference(revision)],
        }
        spec = {"containers": [{"name": "actor", "image": "x"}]}
        await self._api.call(
            "POST", pods, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
        )
        ready = [{"type": "Ready", "status": "True"}]
        status = {"phase": "Running", "startTime": _now(), "conditions": ready}
        await self._api.merge(f"{pods}/{name}/status", {"status": status})

    async def report(self, **training: Any) -> None:
        """Server-side apply of status.training, as a learner does."""
        self._training |= {"updatedAt": _now(), **training}
        body = {
            "apiVersion": "nitro.dev/v1alpha1",
            "kind": "NitroTrainingJob",
            "metadata": {"name": self.name, "namespace": NAMESPACE},
            "status": {"training": self._training},
        }
        path = f"{NITRO}/{self.name}/status?fieldManager=nitro-learner&force=true"
        await self._api.call("PATCH", path, body, "application/apply-patch+yaml")
        self.reports += 1

    async def beat(self, phase: float) -> None:
        await asyncio.sleep(phase * HEARTBEAT_SECONDS)
        while True:
            await self.report()
            await asyncio.sleep(HEARTBEAT_SECONDS)


async def bench(
    server: ApiServer, operator: OperatorProcess, jobs: int, scaled: int, idle_seconds: float
) -> None:
    api = Api(server)
    learners = [Learner(api, f"job-{n}") for n in range(jobs)]
    begin = time.monotonic()
    for learner in learners:
        await api.call("POST", NITRO, job(learner.name))
    for learner in learners:
        await learner.start()
        await learner.start_actor()
    beats = [asyncio.create_task(learner.beat(n / jobs)) for n, learner in enumerate(learners)]
    while (running := _value(operator.metrics(), 'nitro_jobs{phase="Running"}')) < jobs:  # noqa: ASYNC110
        await asyncio.sleep(0.5)
    print(f"{jobs} jobs from nothing to {running:.0f} running: {time.monotonic() - begin:.1f} s")
    await asyncio.sleep(15)  # first metering, last events
    await idle(api, operator, learners, idle_seconds)
    await latency(api, operator, learners[:scaled])
    text = operator.metrics()
    count = _value(text, "nitro_operator_reconcile_duration_seconds_count")
    print(f"reconcile, all {count:.0f} since the start:")
    for quantile in (0.5, 0.99):
        bound = _quantile(text, "nitro_operator_reconcile_duration_seconds", quantile)
        print(f"  p{quantile * 100:g} <= {bound * 1e3:.1f} ms")
    print(f"  errors: {_value(text, 'nitro_operator_reconcile_errors_total'):.0f}")
    now, highest = (_memory(operator.pid, field) for field in ("VmRSS", "VmHWM"))
    print(f"memory: now {now:.0f} MiB, highest {highest:.0f} MiB")
    for task in beats:
        task.cancel()
    await asyncio.gather(*beats, return_exceptions=True)
    await api.close()


async def idle(api: Api, operator: OperatorProcess, learners: list[Learner], seconds: float) -> None:
    """Requests per running job and minute while nothing happens but heartbeats."""
    reports, all_before = sum(learner.reports for learner in learners), await api.requests()
    own_before, cpu = _own_requests(operator), _cpu_seconds(operator.pid)
    await asyncio.sleep(seconds)
    reports = sum(learner.reports for learner in learners) - reports
    others = await api.requests() - all_before - reports - 1
    own = _own_requests(operator) - own_before
    per = 60 / seconds / len(learners)
    print(f"idle for {seconds:g} s, {len(learners)} jobs: {reports} heartbeats;")
    print(f"  requests per running job and minute: {own * per:.2f} by the reconcile,")
    print(f"  {others * per:.2f} as the server counts, its own and kopf's watches included")
    print(f"  CPU {(_cpu_seconds(operator.pid) - cpu) / seconds:.1%}")


async def latency(api: Api, operator: OperatorProcess, learners: list[Learner]) -> None:
    """From the learner's report being stored to the Revision's patch being seen, from outside."""
    seen: dict[tuple[str, str], float] = {}
    listed = await api.call("GET", f"{KNATIVE}/revisions")

    async def watch() -> None:
        async for event in api.watch(f"{KNATIVE}/revisions", listed["metadata"]["resourceVersion"]):
            meta = event["object"]["metadata"]
            scale = meta.get("annotations", {}).get("autoscaling.knative.dev/min-scale", "")
            seen.setdefault((meta["name"], scale), time.monotonic())

    watcher = asyncio.create_task(watch())
    before = operator.metrics()
    times: list[float] = []

    async def score(learner: Learner, number: int) -> None:
        await asyncio.sleep(random.uniform(0, ROUND_SECONDS))
        seen.pop((f"{learner.name}-actors-v1", str(number)), None)
        history = [*HISTORY[:-1], {"round": 60, "actors": 1}]
        await learner.report(requestedActors=number, requestedAt=_now(), boostingScore=0.5, history=history)
        stored = time.monotonic()
        while (found := seen.get((f"{learner.name}-actors-v1", str(number)))) is None:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        times.append(max(0.0, found - stored))

    for number in range(9, 9 + ROUNDS):
        await asyncio.gather(*(score(learner, number) for learner in learners))
    watcher.cancel()
    times.sort()
    print(f"score -> Revision patched, {len(learners)} of the jobs, {len(times)} scores:")
    print(f"  outside (report stored -> patch seen by a watch): {_percentiles(times)}")
    name = "nitro_operator_score_to_scale_seconds"
    p50, p99 = (_quantile(operator.metrics(), name, q, before) * 1e3 for q in (0.5, 0.99))
    print(f"  operator's histogram (seen -> patch answered): p50 <= {p50:.0f} ms, p99 <= {p99:.0f} ms")


def _percentiles(times: list[float]) -> str:
    cuts = statistics.quantiles(times, n=100)
    named = {"p50": cuts[49], "p90": cuts[89], "p99": cuts[98], "worst": times[-1]}
    return ", ".join(f"{name} {value * 1e3:.0f} ms" for name, value in named.items())


def _own_requests(operator: OperatorProcess) -> float:
    lines = [
        line
        for line in operator.metrics().splitlines()
        if line.startswith("nitro_operator_api_requests_total{")
    ]
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines)


def _value(text: str, name: str) -> float:
    return next(
        (float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(f"{name} ")), 0.0
    )


def _buckets(text: str, name: str) -> dict[float, float]:
    found = re.findall(rf'^{name}_bucket{{le="([^"]+)"}} (\S+)$', text, re.MULTILINE)
    return {float(bound.replace("+Inf", "inf")): float(count) for bound, count in found}


def _quantile(text: str, name: str, q: float, before: str = "") -> float:
    """The upper bound of the histogram's bucket with that quantile."""
    old = _buckets(before, name)
    counts = {bound: count - old.get(bound, 0) for bound, count in _buckets(text, name).items()}
    return next(bound for bound, count in sorted(counts.items()) if count >= q * counts[float("inf")])


def _memory(pid: int, field: str) -> float:
    text = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(rf"{field}:\s+(\d+) kB", text)[1]) / 1024  # type: ignore[index]


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _now() -> str:
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")


def _forever() -> Any:
    while True:
        yield None


async def _until(tries: Any) -> Object:
    """The first try that succeeds."""
    attempt: Awaitable[Object]
    for attempt in tries:
        try:
            return await attempt
        except RuntimeError:
            await asyncio.sleep(0.2)
    raise AssertionError("unreachable")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=100)
    parser.add_argument("--scaled", type=int, default=20, help="jobs whose scores are timed")
    parser.add_argument("--idle-seconds", type=float, default=120)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, ApiServer(find_assets()) as server:
        server.apply_crd()
        for definition in knative_definitions():
            server.kubectl("apply", "-f", "-", input=json.dumps(definition))
        server.kubectl("wait", "crd", "--for=condition=Established", "--all", "--timeout=30s")
        server.kubectl("create", "namespace", NAMESPACE)
        program = subprocess.run(
            [server.assets / "kube-apiserver", "--version"], capture_output=True, text=True
        )
        versions = ", ".join(
            f"{name} {version(name)}" for name in ("kopf", "kubernetes", "pydantic", "aiohttp")
        )
        python = f"Python {platform.python_version()}"
        print(f"{platform.node()}: {os.cpu_count()} CPUs, {platform.platform()}, {python}")
        print(f"{program.stdout.strip()}; {versions}; load {os.getloadavg()[0]:.1f}")
        with OperatorProcess(
            server.kubeconfig, Path(folder) / "operator.log", NITRO_RESYNC_SECONDS="20"
        ) as operator:
            asyncio.run(bench(server, operator, arguments.jobs, arguments.scaled, arguments.idle_seconds))


if __name__ == "__main__":
    main()
