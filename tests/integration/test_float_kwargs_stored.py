"""Floats of keyword arguments on a real API server: it stores 1.0 as 1, and what is marked arrives as 1.0."""

from __future__ import annotations

import json

from apiserver import ApiServer
from nitro_api.loading.job_file import resolve_stored
from nitro_operator import builders
from nitro_operator.builders.view import JobView
from operator_objects import CONFIG

KWARGS = "{plain: 1.0, marked: {$float: 1.0}, deep: [{$float: 2}, {x: {$float: 1e3}}], half: 0.5, whole: 1}"
JOB = f"""\
apiVersion: nitro.dev/v1alpha1
kind: NitroTrainingJob
metadata: {{name: float-kwargs}}
spec:
  suspend: true
  environment: {{id: Mine-v0, kwargs: {KWARGS}}}
"""


def test_marked_floats_arrive_at_the_actors_through_the_api_server(apiserver: ApiServer) -> None:
    try:
        apiserver.kubectl("apply", "-f", "-", input=JOB)
        stored = apiserver.get("ntj", "float-kwargs")
        assert json.dumps(stored["spec"]["environment"]["kwargs"]["plain"]) == "1", "the point is lost"
        job = resolve_stored(stored)
        pod = builders.actor_service(JobView.of(stored, job.spec, CONFIG))["spec"]["template"]["spec"]
        (actor,) = (one for one in pod["containers"] if one["name"] == "actor")
        (variable,) = (one["value"] for one in actor["env"] if one["name"] == "NITRO_ENVIRONMENT")
        arrived = json.dumps(json.loads(variable.replace("$$", "$"))["kwargs"], sort_keys=True)
        assert arrived == '{"deep": [2.0, {"x": 1000.0}], "half": 0.5, "marked": 1.0, "plain": 1, "whole": 1}'
    finally:
        apiserver.kubectl("delete", "ntj", "float-kwargs", "--ignore-not-found")
