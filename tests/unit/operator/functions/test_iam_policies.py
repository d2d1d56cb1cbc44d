"""The IAM policies of docs/aws: their grammar, that their actions exist, and that the code needs them all."""

from __future__ import annotations

import ast
import fnmatch
import functools
import json
import re
from pathlib import Path
from typing import Any

import botocore.session
import pytest
from moto.iam.policy_validation import IAMPolicyDocumentValidator, IAMTrustPolicyDocumentValidator

from nitro_api.spec.lambda_backend import ALIAS, function_name

ROOT = Path(__file__).parents[4]
POLICIES = {file.stem: file for file in sorted((ROOT / "docs" / "aws").glob("*.json"))}
TRUST = [name for name in POLICIES if name.endswith("-trust")]
OF_A_RESOURCE = ["repository"]
"""Policies that are attached to a resource name a principal, and have no grammar check of their own here."""
NO_OPERATION = {"iam:PassRole", "lambda:InvokeFunction"}
"""Permissions that no operation of AWS's API is called after."""


@functools.cache
def operations(service: str) -> frozenset[str]:
    """The operations of a service of AWS, by botocore's model of it."""
    return frozenset(botocore.session.get_session().get_service_model(service).operation_names)


def policy(name: str) -> dict[str, Any]:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        assert len(found) == len(pairs), f"{name}: a key occurs twice"
        return found

    found: dict[str, Any] = json.loads(POLICIES[name].read_text(), object_pairs_hook=unique)
    return found


def actions(name: str, effect: str = "Allow") -> list[str]:
    found = [s["Action"] for s in policy(name)["Statement"] if s["Effect"] == effect]
    return [action for one in found for action in ([one] if isinstance(one, str) else one)]


@pytest.mark.parametrize("name", [n for n in POLICIES if n not in TRUST and n not in OF_A_RESOURCE])
def test_an_identity_policy_has_its_grammar(name: str) -> None:
    IAMPolicyDocumentValidator(POLICIES[name].read_text()).validate()


@pytest.mark.parametrize("name", TRUST)
def test_a_trust_policy_has_its_grammar(name: str) -> None:
    IAMTrustPolicyDocumentValidator(POLICIES[name].read_text()).validate()


@pytest.mark.parametrize("name", POLICIES)
def test_every_action_exists_and_none_is_a_wildcard(name: str) -> None:
    for action in {*actions(name), *actions(name, "Deny")} - NO_OPERATION:
        service, _, operation = action.partition(":")
        assert operation in operations(service), action


@pytest.mark.parametrize("name", POLICIES)
def test_only_actions_without_a_resource_type_are_allowed_on_all_resources(name: str) -> None:
    for statement in policy(name)["Statement"]:
        if statement["Effect"] == "Allow" and statement.get("Resource") == "*":
            found = {action.split(":")[0] for action in statement["Action"]}
            assert found == {"ec2"}


def test_the_operators_policy_allows_exactly_the_calls_of_its_code() -> None:
    called = set()
    for file in (ROOT / "operator" / "nitro_operator" / "functions").glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                name = "".join(part.capitalize() for part in node.value.split("_"))
                if re.fullmatch("[a-z_]+", node.value) and name in operations("lambda"):
                    called.add("lambda:InvokeFunction" if name == "Invoke" else f"lambda:{name}")
    called.add("lambda:ListTags")  # GetFunction gives the tags only with it
    assert called == {action for action in actions("operator") if action.startswith("lambda:")}


def test_the_documentation_names_every_policy() -> None:
    page = (ROOT / "docs" / "lambda.md").read_text()
    for name in POLICIES:
        assert f"aws/{name}.json" in page, name


def test_a_learners_policy_allows_the_functions_of_its_namespace_only() -> None:
    (statement,) = policy("learner")["Statement"]
    (role,) = policy("learner-trust")["Statement"]
    assert ":serviceaccount:team:" in str(role["Condition"])
    patterns = [one.rpartition("function:")[2] for one in statement["Resource"]]

    def allowed(name: str) -> bool:
        return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)

    assert allowed(function_name("team", "hopper"))
    assert allowed(function_name("team", "hopper") + f":{ALIAS}")
    # Kubernetes takes all of these names for namespaces and jobs.
    for namespace, job in (("team-a", "hopper"), ("team-hopper", "a"), ("other", "team")):
        assert not allowed(function_name(namespace, job))
