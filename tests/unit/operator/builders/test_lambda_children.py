"""The objects that a job on Lambda becomes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nitro_operator.backends import KnativeRelease, deployment_of
from nitro_operator.builders import credentials_secret, learner_access, learner_job, network_policies
from nitro_operator.functions import NOT_SEEN, FunctionState, problems
from nitro_operator.observation.observed import Observed
from operator_objects import learner_job as learner_job_object
from operator_objects import make_view

IMAGE = "123456789012.dkr.ecr.us-east-2.amazonaws.com/nitro-actor:0.1.0"


ROLE = "arn:aws:iam::123456789012:role/nitro-actor"


OWN = {"manage": False, "functionName": "mine", "region": "us-east-2", "memoryMiB": 1024}
"""A function that somebody else manages."""


def backend(**changes: Any) -> dict[str, Any]:
    return {"type": "Lambda", "lambda": {"image": IMAGE, "roleArn": ROLE, **changes}}


class TestObjects:
    def test_a_learner_with_lambda_actors_has_no_redis_container(self) -> None:
        view = make_view(backend=backend(credentialsSecret="aws"))
        pod = learner_job(view, None)["spec"]["template"]["spec"]
        assert pod["initContainers"] == []
        assert "redis" not in json.dumps(pod["volumes"])
        env = {entry["name"]: entry for entry in pod["containers"][0]["env"]}
        assert not {"NITRO_REDIS_URL", "NITRO_ACTOR_URL"} & env.keys()
        assert credentials_secret(view)["stringData"].keys() == {"token"}
        key = env["AWS_SECRET_ACCESS_KEY"]["valueFrom"]["secretKeyRef"]
        assert key == {"name": "aws", "key": "AWS_SECRET_ACCESS_KEY"}
        assert env["AWS_SESSION_TOKEN"]["valueFrom"]["secretKeyRef"]["optional"] is True
        (policy,) = network_policies(view)
        assert policy["spec"]["ingress"] == [{"ports": [{"protocol": "TCP", "port": 9090}]}]

    def test_a_learner_has_the_token_of_a_function_that_the_operator_makes(self) -> None:
        def variables(backend: dict[str, Any]) -> set[str]:
            learner = learner_job(make_view(backend=backend), None)
            return {one["name"] for one in learner["spec"]["template"]["spec"]["containers"][0]["env"]}

        assert "NITRO_TOKEN" in variables(backend())
        own = {"type": "Lambda", "lambda": OWN}
        assert not make_view(backend=own).has_secret
        assert "NITRO_TOKEN" not in variables(own)

    def test_the_redis_url_of_the_user_is_read_from_the_secret(self) -> None:
        view = make_view(backend=backend(transport="Redis", redis={"secretName": "r", "key": "k"}))
        env = learner_job(view, None)["spec"]["template"]["spec"]["containers"][0]["env"]
        found = next(entry for entry in env if entry["name"] == "NITRO_REDIS_URL")
        assert found["valueFrom"] == {"secretKeyRef": {"name": "r", "key": "k"}}

    def test_the_iam_role_is_an_annotation_of_the_service_account(self) -> None:
        account = learner_access(make_view(learner={"roleArn": ROLE}))[0]
        assert account["metadata"]["annotations"] == {"eks.amazonaws.com/role-arn": ROLE}
        assert "annotations" not in learner_access(make_view())[0]["metadata"]

    def test_the_learner_waits_for_its_function_and_not_for_a_grant(self) -> None:
        spec, release = make_view(backend=backend()).spec, KnativeRelease()
        making = deployment_of(spec, release, NOT_SEEN)
        assert not making.limited
        waiting = making.blocker()
        assert waiting is not None
        assert (waiting.reason, waiting.warning) == ("FunctionPending", False)
        ready = deployment_of(spec, release, FunctionState(ready=True))
        assert ready.blocker() is None
        assert ready.serving(Observed())
        assert ready.children(make_view(backend=backend())) == []

    @pytest.mark.parametrize("started", [False, True])
    def test_another_protocol_is_a_problem_only_before_the_learner_is_started(self, started: bool) -> None:
        problem = problems.other_protocol("nitro-team-hopper", 1, 2)
        assert problem.message.endswith("Give the function an actor image of this release.")
        spec, state = make_view(backend=backend()).spec, FunctionState(ready=False, problem=problem)
        deployment = deployment_of(spec, KnativeRelease(), state)
        observed = Observed(learner_job=learner_job_object() if started else None)
        assert deployment.blocker() == problem
        assert deployment.problem(observed) == (None if started else problem)
        assert deployment.serving(observed) == started

    def test_other_problems_of_a_function_count_while_the_learner_runs(self) -> None:
        problem = problems.other_environment("nitro-team-hopper", "Hopper-v5")
        spec, state = make_view(backend=backend()).spec, FunctionState(ready=False, problem=problem)
        deployment = deployment_of(spec, KnativeRelease(), state)
        observed = Observed(learner_job=learner_job_object())
        assert deployment.problem(observed) == problem
        assert not deployment.serving(observed)
