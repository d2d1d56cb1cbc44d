"""The reconcile of one function: read its state from AWS, make the next change, repeat. It keeps no state."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime

from nitro_api.spec.job import PROTOCOL_VERSION
from nitro_api.spec.lambda_backend import ALIAS, LambdaBackendSpec
from nitro_operator.builders import JobView
from nitro_operator.functions import problems
from nitro_operator.functions.aws import Access, Aws, AwsError
from nitro_operator.functions.desired import (
    DesiredFunction,
    ObservedFunction,
    next_change,
    parse,
    provisioning,
)
from nitro_operator.kube.kinds import Object
from nitro_operator.observation.diagnosis import Problem

MAX_CHANGES = 12
"""More changes than any function needs. If somebody else undoes each change, the next look continues."""
GONE = ("ResourceNotFoundException", "ProvisionedConcurrencyConfigNotFoundException")
HEALTH = json.dumps({"kind": "spec"}).encode()


@dataclass(frozen=True)
class FunctionOutcome:
    """The result of one reconcile of a function."""

    ready: bool
    problem: Problem | None = None
    changing: bool = False
    """AWS is changing it: look again soon."""
    failed: bool = False
    """AWS accepted its creation or a change, and could not make it. If that was the creation, it is not ready
    and must be removed before the next try."""
    again: float | None = None
    """Seconds until provisioned concurrency may change."""
    code_key: tuple[str, str] | None = None
    """Key of the code to which the alias points."""
    provisioned: int | None = None
    """The provisioned concurrency that was requested last, or that AWS could give; None if it is off."""


class FunctionReconciler:
    """Bring one function to its desired state.

    Every method raises AwsError.
    """

    def __init__(self, aws: Aws, access: Access, name: str) -> None:
        self._aws = aws
        self._access = access
        self._name = name

    async def bring(
        self,
        desired: DesiredFunction,
        uid: str,
        *,
        active: bool,
        actors: int | None,
        published: tuple[str, str] | None = None,
        again: bool = False,
    ) -> FunctionOutcome:
        """Change the function towards the desired state, as far as AWS allows it now.

        Args:
            uid: of the job. A function of another job is never changed.
            actors: sandboxes to keep ready, where provisioned concurrency is on; None = as many as before.
            published: code that the alias is known to point to.
            again: whether to repeat a change that AWS could not make.
        """
        for attempt in range(MAX_CHANGES):
            observed = await self.look()
            if observed is not None:
                if not observed.owned_by(uid):
                    return FunctionOutcome(ready=False, problem=problems.name_taken(observed, self._name))
                if observed.changing:
                    return FunctionOutcome(ready=observed.state != "Pending", changing=True)
                if observed.state == "Failed":
                    return FunctionOutcome(
                        ready=False, problem=problems.broken(observed, self._name), failed=True
                    )
            step = next_change(desired, observed, active=active, again=again and attempt == 0)
            if step is not None:
                await self._aws.call(self._access, step.operation, **step.arguments)
            elif observed is None:
                return FunctionOutcome(ready=False)
            else:
                return await self._finish(desired, observed, actors if active else 0, published)
        return FunctionOutcome(ready=True, changing=True)

    async def remove(self, uid: str) -> None:
        """Remove the function if it belongs to this job; on return it is gone."""
        observed = await self.look()
        if observed is None or not observed.owned_by(uid):
            return
        await self._find("delete_function")

    async def check(
        self, function: LambdaBackendSpec, view: JobView, healthy: str | None
    ) -> tuple[FunctionOutcome, str]:
        """Check a function that somebody else manages (`manage: false`): it must exist and fit the job.

        Args:
            healthy: revision that is known to be healthy. It is not invoked again, because that costs money.

        Returns:
            The outcome, and the revision that was checked.
        """
        configuration = await self._find("get_function_configuration")
        if configuration is None:
            return FunctionOutcome(ready=False, problem=problems.missing(self._name, function.region)), ""
        pending, revision = configuration.get("State") == "Pending", str(configuration.get("RevisionId", ""))
        problem = problems.misfit(
            configuration, self._name, function.memory_mib, view.spec.actor.timeout_seconds
        )
        if problem is None and not pending and revision != healthy:
            problem = await self._health(view)
        return FunctionOutcome(problem is None and not pending, problem, changing=pending), revision

    async def look(self) -> ObservedFunction | None:
        """The function as AWS has it; None if there is none."""
        answer = await self._find("get_function")
        if answer is None:
            return None
        if "TagsError" in answer:  # without its tags the job's own function would be taken for another's
            told = "the answer has no tags, which AWS gives only with lambda:ListTags"
            raise AwsError("get_function", "AccessDenied", told)
        return parse(answer)

    # ------------------------------------------------------------ provisioned concurrency

    async def _finish(
        self,
        desired: DesiredFunction,
        observed: ObservedFunction,
        actors: int | None,
        published: tuple[str, str] | None,
    ) -> FunctionOutcome:
        broken = problem = problems.broken(observed, self._name)
        again = provisioned = None
        if desired.minutes_between_changes is not None:
            if published != observed.code_key:
                await self._publish()
            provisioned, trouble, again = await self._provision(desired, actors)
            problem = broken or trouble
        return FunctionOutcome(
            ready=True,
            problem=problem,
            failed=broken is not None,
            again=again,
            code_key=observed.code_key,
            provisioned=provisioned,
        )

    async def _publish(self) -> None:
        """Point the alias to the newest code. Unchanged code gets no new version."""
        version = (await self._call("publish_version"))["Version"]
        alias = await self._find("get_alias", Name=ALIAS)
        if alias is None:
            await self._call("create_alias", Name=ALIAS, FunctionVersion=version)
        elif alias["FunctionVersion"] != version:
            await self._call("update_alias", Name=ALIAS, FunctionVersion=version)

    async def _provision(
        self, desired: DesiredFunction, actors: int | None
    ) -> tuple[int, Problem | None, float | None]:
        """Change the provisioned number if a change is due.

        Returns:
            The number, its problem if any, and the seconds until it may change.
        """
        assert desired.minutes_between_changes is not None
        now = await self._find("get_provisioned_concurrency_config", Qualifier=ALIAS) or {}
        requested = int(now.get("RequestedProvisionedConcurrentExecutions", 0))
        wanted = requested if actors is None else actors
        if desired.reserved is not None:
            wanted = min(wanted, desired.reserved)
        failed = now.get("Status") == "FAILED"
        # A number that AWS could not give is not billed. It is requested again when a change is due.
        allocated = int(now.get("AllocatedProvisionedConcurrentExecutions", 0))
        current = allocated if failed and wanted else requested
        change, left = provisioning(wanted, current, desired.minutes_between_changes, _seconds_since(now))
        if change == 0:
            await self._call("delete_provisioned_concurrency_config", Qualifier=ALIAS)
        elif change is not None:
            count = {"ProvisionedConcurrentExecutions": change}
            await self._call("put_provisioned_concurrency_config", Qualifier=ALIAS, **count)
        problem = None
        if failed and change is None and current < wanted:
            problem = problems.not_provisioned(self._name, str(now.get("StatusReason", "")))
        return current if change is None else change, problem, left or None

    # ------------------------------------------------------------ health

    async def _health(self, view: JobView) -> Problem | None:
        wanted = view.spec.environment
        answer = await self._call("invoke", Payload=HEALTH)
        try:
            told = json.loads(answer["Payload"])
            body = told["body"]
            if "FunctionError" in answer or told["status"] != 200:
                raise ValueError
            if (protocol := int(body["protocol"])) != PROTOCOL_VERSION:
                return problems.other_protocol(self._name, protocol, PROTOCOL_VERSION)
            environment, envs = str(body["id"]), int(body["envs"])
        except (ValueError, KeyError, TypeError):
            return problems.unhealthy(self._name)
        if environment != wanted.id:
            return problems.other_environment(self._name, wanted.id)
        if envs != wanted.envs_per_actor:
            return problems.other_envs(self._name, envs, wanted.envs_per_actor)
        return None

    async def _call(self, operation: str, **arguments: object) -> Object:
        return await self._aws.call(self._access, operation, FunctionName=self._name, **arguments)

    async def _find(self, operation: str, **arguments: object) -> Object | None:
        """The answer to a call; None if what it names does not exist."""
        try:
            return await self._call(operation, **arguments)
        except AwsError as error:
            if error.code not in GONE:
                raise
            return None


def _seconds_since(provisioned: Object) -> float:
    """Seconds since the last change was requested; infinite if there is no provisioned concurrency."""
    changed = provisioned.get("LastModified")
    if not changed:
        return float("inf")
    return (datetime.now(UTC) - datetime.fromisoformat(changed)).total_seconds()
