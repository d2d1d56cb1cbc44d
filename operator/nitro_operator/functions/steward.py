"""One function, looked at and changed step by step. It keeps nothing: every run starts from what AWS says."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime

from nitro_api.job import PROTOCOL_VERSION
from nitro_api.lambda_backend import ALIAS, LambdaBackend
from nitro_operator.builders import JobView
from nitro_operator.diagnosis import Problem
from nitro_operator.functions import problems
from nitro_operator.functions.aws import Access, Aws, AwsError
from nitro_operator.functions.found import Found, parse
from nitro_operator.functions.steps import next_step, provisioning
from nitro_operator.functions.wish import Wish
from nitro_operator.kinds import Object

MAX_STEPS = 12
"""More than any function needs; an endless quarrel with somebody else's hand goes on at the next look."""
GONE = "ResourceNotFoundException"
HEALTH = json.dumps({"kind": "spec"}).encode()


@dataclass(frozen=True)
class Outcome:
    """What a look at a function has led to."""

    ready: bool
    problem: Problem | None = None
    changing: bool = False
    """AWS is at work: look again soon."""
    failed: bool = False
    """AWS could not make it: it must be removed before another try."""
    again: float | None = None
    """Seconds after which provisioned concurrency is due to change."""
    code_key: tuple[str, str] | None = None
    """Of the code that the alias has been set to."""
    provisioned: int | None = None
    """The provisioned concurrency that AWS was asked for last, or could give; None where that is off."""


class Steward:
    """Looks after one function.

    Usage::

        steward = Steward(aws, access, "nitro-team-hopper")
        outcome = await steward.bring(wish, uid, active=True, actors=8, published=None)
        await steward.remove(uid)

    Every method raises AwsError.
    """

    def __init__(self, aws: Aws, access: Access, name: str) -> None:
        self._aws = aws
        self._access = access
        self._name = name

    async def bring(
        self,
        wish: Wish,
        uid: str,
        *,
        active: bool,
        actors: int,
        published: tuple[str, str] | None = None,
        again: bool = False,
    ) -> Outcome:
        """Bring the function as near to the wish as AWS lets it now.

        Args:
            wish: what should be.
            uid: of the job: a function of another one is never touched.
            active: whether the job runs.
            actors: sandboxes to keep ready, where provisioned concurrency is on.
            published: code that the alias is known to point to.
            again: whether a change that AWS could not make is due to be tried again.
        """
        for attempt in range(MAX_STEPS):
            found = await self.look()
            if found is not None:
                if not found.owned_by(uid):
                    return Outcome(ready=False, problem=problems.name_taken(found, self._name))
                if found.changing:
                    return Outcome(ready=found.state != "Pending", changing=True)
                if found.state == "Failed":
                    return Outcome(ready=False, problem=problems.broken(found, self._name), failed=True)
            step = next_step(wish, found, active=active, again=again and attempt == 0)
            if step is not None:
                await self._call(step.operation, **step.arguments)
            elif found is None:
                return Outcome(ready=False)
            else:
                return await self._finish(wish, found, actors if active else 0, published)
        return Outcome(ready=True, changing=True)

    async def remove(self, uid: str) -> None:
        """Remove the function if it is this job's; on return it is gone."""
        found = await self.look()
        if found is None or not found.owned_by(uid):
            return
        try:
            await self._call("delete_function", FunctionName=self._name)
        except AwsError as error:
            if error.code != GONE:
                raise

    async def check(self, function: LambdaBackend, view: JobView, healthy: str | None) -> tuple[Outcome, str]:
        """Whether somebody else's function is there and fits; `manage: false`.

        Args:
            function: the job's settings.
            view: the job.
            healthy: revision whose health is known: an invocation costs money.

        Returns:
            The outcome, and the revision that it is about.
        """
        try:
            found = await self._call("get_function_configuration", FunctionName=self._name)
        except AwsError as error:
            if error.code == GONE:
                return Outcome(ready=False, problem=problems.missing(self._name, function.region)), ""
            raise
        revision = str(found.get("RevisionId", ""))
        problem = problems.misfit(found, self._name, function.memory_mib, view.spec.actor.timeout_seconds)
        if problem is None and found.get("State") != "Pending" and revision != healthy:
            problem = await self._health(view)
        return Outcome(
            ready=problem is None and found.get("State") != "Pending",
            problem=problem,
            changing=found.get("State") == "Pending",
        ), revision

    async def look(self) -> Found | None:
        """The function as it is, None where there is none."""
        try:
            return parse(await self._call("get_function", FunctionName=self._name))
        except AwsError as error:
            if error.code == GONE:
                return None
            raise

    # ------------------------------------------------------------ provisioned concurrency

    async def _finish(
        self, wish: Wish, found: Found, actors: int, published: tuple[str, str] | None
    ) -> Outcome:
        problem, again, provisioned = problems.broken(found, self._name), None, None
        if wish.minutes_between_changes is not None:
            if published != found.code_key:
                await self._publish()
            provisioned, trouble, again = await self._provision(wish, actors)
            problem = problem or trouble
        return Outcome(
            ready=True,
            problem=problem,
            again=again,
            code_key=found.code_key,
            provisioned=provisioned,
        )

    async def _publish(self) -> None:
        """Point the alias to the newest code. Publishing code that has not changed makes no new version."""
        version = (await self._call("publish_version", FunctionName=self._name))["Version"]
        name = {"FunctionName": self._name, "Name": ALIAS}
        try:
            alias = await self._call("get_alias", **name)
        except AwsError as error:
            if error.code != GONE:
                raise
            await self._call("create_alias", **name, FunctionVersion=version)
        else:
            if alias["FunctionVersion"] != version:
                await self._call("update_alias", **name, FunctionVersion=version)

    async def _provision(self, wish: Wish, actors: int) -> tuple[int, Problem | None, float | None]:
        """What is provisioned now, what is wrong with that, and when it is due to change."""
        assert wish.minutes_between_changes is not None
        name = {"FunctionName": self._name, "Qualifier": ALIAS}
        now = await self._provisioned(name)
        wanted = actors if wish.reserved is None else min(actors, wish.reserved)
        failed = now.get("Status") == "FAILED"
        # What AWS could not give is not paid for, and asked for again when a change is due.
        count_of = "Allocated" if failed and wanted else "Requested"
        current = int(now.get(f"{count_of}ProvisionedConcurrentExecutions", 0))
        change, left = provisioning(wanted, current, wish.minutes_between_changes, _seconds_since(now))
        if change == 0:
            await self._call("delete_provisioned_concurrency_config", **name)
        elif change is not None:
            count = {"ProvisionedConcurrentExecutions": change}
            await self._call("put_provisioned_concurrency_config", **name, **count)
        problem = None
        if failed and change is None and current < wanted:
            problem = problems.not_provisioned(self._name, str(now.get("StatusReason", "")))
        return current if change is None else change, problem, left or None

    async def _provisioned(self, name: Object) -> Object:
        try:
            return await self._call("get_provisioned_concurrency_config", **name)
        except AwsError as error:
            if error.code == "ProvisionedConcurrencyConfigNotFoundException":
                return {}
            raise

    # ------------------------------------------------------------ health

    async def _health(self, view: JobView) -> Problem | None:
        answer = await self._call("invoke", FunctionName=self._name, Payload=HEALTH)
        text = answer["Payload"].decode(errors="replace")
        try:
            told = json.loads(text)
            body = told["body"]
            if "FunctionError" in answer or told["status"] != 200:
                raise ValueError
            protocol, environment = int(body["protocol"]), str(body["id"])[:200]
        except (ValueError, KeyError, TypeError):
            return problems.unhealthy(self._name, text)
        if protocol != PROTOCOL_VERSION:
            return problems.other_protocol(self._name, protocol, PROTOCOL_VERSION)
        wanted = view.spec.environment.id
        return problems.other_environment(self._name, environment, wanted) if environment != wanted else None

    async def _call(self, operation: str, **arguments: object) -> Object:
        return await self._aws.call(self._access, operation, **arguments)


def _seconds_since(provisioned: Object) -> float:
    """Time since AWS was last asked to change it; endless where it was not, or after it was let go."""
    changed = provisioned.get("LastModified")
    if not changed:
        return float("inf")
    return (datetime.now(UTC) - datetime.fromisoformat(changed)).total_seconds()
