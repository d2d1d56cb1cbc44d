"""A job whose environment and scaler come from `nitro code`, without an image that has them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from harness import Cluster, kubectl
from jobs import hopper
from namespaces import Start

LINE = """\
import gymnasium
import numpy as np

from shared.sizes import LENGTH


class Line(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-10, 10, (1,))
    action_space = gymnasium.spaces.Box(-1, 1, (1,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x, self.t = self.np_random.uniform(-5, 5, 1).astype("f4"), 0
        return self.x, {}

    def step(self, action):
        self.x, self.t = np.clip(self.x + action, -10, 10), self.t + 1
        return self.x, -abs(float(self.x[0])), False, self.t >= LENGTH, {}
"""
MORE = """\
from nitro_learner.scalers import Decision, Scaler

from shared.sizes import STEP


class More(Scaler):
    def decide(self, outcome):
        return Decision(self.clip(outcome.actors + STEP))
"""


def test_environment_and_scaler_come_from_a_folder(
    cluster: Cluster, namespace: str, start: Start, tmp_path: Path
) -> None:
    (tmp_path / "mine" / "shared").mkdir(parents=True)
    (tmp_path / "mine" / "shared" / "sizes.py").write_text("LENGTH, STEP = 32, 1\n")
    (tmp_path / "mine" / "line.py").write_text(LINE)
    (tmp_path / "mine" / "more.py").write_text(MORE)
    manifest = tmp_path / "code.yaml"
    command = [sys.executable, "-m", "nitro_learner", "code", tmp_path / "mine", "-o", manifest]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    spec = hopper(rounds=3) | {
        "code": said.split()[-1],
        "environment": {"entryPoint": "line:Line", "rolloutLength": 64, "envsPerActor": 2},
        "scaling": {"entryPoint": "more:More", "minActors": 1, "initialActors": 1, "maxActors": 3},
    }
    start("mine", spec)
    cluster.until_says(namespace, "mine", "CodeMissing", "nitro code")
    kubectl("apply", "--server-side", "--namespace", namespace, "-f", str(manifest))
    job = cluster.until_phase(namespace, "mine", "Succeeded")
    assert [entry["actors"] for entry in job["status"]["training"]["history"]] == [1, 2, 3]
    cluster.jobs.delete(namespace=namespace, name="mine")
    cluster.until(
        cluster.kind("v1", "ConfigMap"),
        lambda found: not [one for one in found if one["metadata"]["name"].startswith("nitro-code-")],
        namespace=namespace,
        what="its ConfigMap goes with the job",
    )
