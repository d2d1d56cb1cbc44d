"""The chart's scrape configuration for a Prometheus that cannot ask Kubernetes.

Debian builds Prometheus without Kubernetes' service discovery. So its targets come from files that hold what
that discovery would have found, under the same __meta labels; everything else, relabelling above all, is used
as it is.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

Object = dict[str, Any]


def with_files(config: Mapping[str, Any], folder: Path) -> Object:
    """The configuration with each job's kubernetes_sd_configs replaced by the file `folder`/<job>.json."""
    found: Object = copy.deepcopy(dict(config))
    for job in found["scrape_configs"]:
        del job["kubernetes_sd_configs"]
        file = folder / f"{job['job_name']}.json"
        job["file_sd_configs"] = [{"files": [str(file)], "refresh_interval": "1s"}]
        if not file.exists():
            file.write_text("[]")
    return found


def write_targets(file: Path, pods: Iterable[Mapping[str, Any]]) -> None:
    """Writes one target for each port of each pod that has an address."""
    unfinished = file.with_suffix(".new")
    unfinished.write_text(json.dumps([target for pod in pods for target in _targets(pod)]))
    unfinished.rename(file)


def _targets(pod: Mapping[str, Any]) -> Iterable[Object]:
    address = pod["status"].get("podIP")
    if not address:
        return
    for container in [*pod["spec"].get("initContainers", []), *pod["spec"]["containers"]]:
        for port in container.get("ports", []):
            yield {
                "targets": [f"{address}:{port['containerPort']}"],
                "labels": {
                    "__meta_kubernetes_namespace": pod["metadata"]["namespace"],
                    "__meta_kubernetes_pod_name": pod["metadata"]["name"],
                    "__meta_kubernetes_pod_phase": pod["status"]["phase"],
                    "__meta_kubernetes_pod_container_port_name": port.get("name", ""),
                },
            }
