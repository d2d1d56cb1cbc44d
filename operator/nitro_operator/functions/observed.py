"""The function as AWS reports it. A pure function of AWS's answer."""

from __future__ import annotations

from dataclasses import dataclass

from nitro_operator.functions.desired import UID_TAG
from nitro_operator.kube.kinds import Object


@dataclass(frozen=True)
class ObservedFunction:
    """The fields of GetFunction's answer that matter here."""

    arn: str
    image: str | None
    architecture: str
    configuration: Object
    """Settings, in the same form as DesiredFunction.configuration."""
    tags: dict[str, str]
    reserved: int | None
    state: str
    """Pending, Active, Inactive (it becomes active with the next invocation) or Failed."""
    state_reason: tuple[str, str]
    """Code and message."""
    update: str
    """Status of the last change: InProgress, Successful or Failed."""
    update_reason: tuple[str, str]
    code_key: tuple[str, str]
    """A key that differs after every change of code or settings; published versions are compared by it."""

    def owned_by(self, uid: str) -> bool:
        return self.tags.get(UID_TAG) == uid

    @property
    def changing(self) -> bool:
        """Whether AWS is changing it. Until that is done, AWS accepts no other change."""
        return self.state == "Pending" or self.update == "InProgress"


def parse(answer: Object) -> ObservedFunction:
    """Read the answer of GetFunction."""
    settings, code = answer["Configuration"], answer.get("Code") or {}
    vpc = settings.get("VpcConfig") or {}
    image = (settings.get("ImageConfigResponse") or {}).get("ImageConfig") or {}
    return ObservedFunction(
        arn=settings["FunctionArn"],
        image=code.get("ImageUri"),
        architecture=next(iter(settings.get("Architectures") or ["x86_64"])),
        configuration={
            "Description": settings.get("Description", ""),
            "Role": settings.get("Role"),
            "MemorySize": settings.get("MemorySize"),
            "Timeout": settings.get("Timeout"),
            "Environment": {"Variables": (settings.get("Environment") or {}).get("Variables") or {}},
            "ImageConfig": {"EntryPoint": image.get("EntryPoint"), "Command": image.get("Command")},
            "VpcConfig": {
                "SubnetIds": sorted(vpc.get("SubnetIds") or []),
                "SecurityGroupIds": sorted(vpc.get("SecurityGroupIds") or []),
            },
        },
        tags=answer.get("Tags") or {},
        reserved=(answer.get("Concurrency") or {}).get("ReservedConcurrentExecutions"),
        state=settings.get("State", "Active"),
        state_reason=(settings.get("StateReasonCode", ""), settings.get("StateReason", "")),
        update=settings.get("LastUpdateStatus", "Successful"),
        update_reason=(
            settings.get("LastUpdateStatusReasonCode", ""),
            settings.get("LastUpdateStatusReason", ""),
        ),
        code_key=(settings.get("CodeSha256", ""), settings.get("LastModified", "")),
    )
