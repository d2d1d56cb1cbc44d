"""A function as AWS tells of it. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from nitro_operator.functions.wish import UID_TAG
from nitro_operator.kinds import Object


@dataclass(frozen=True)
class Found:
    """The answer of GetFunction, in our words."""

    arn: str
    image: str | None
    architecture: str
    configuration: Object
    """In the form of the wish's."""
    tags: dict[str, str]
    reserved: int | None
    state: str
    """Pending, Active, Inactive (asleep: it wakes up with the next invocation) or Failed."""
    state_reason: tuple[str, str]
    """Code and sentence."""
    update: str
    """Of the last change: InProgress, Successful or Failed."""
    update_reason: tuple[str, str]
    code_key: tuple[str, str]
    """Changes with every change of code and settings; a published version is compared by it."""

    def owned_by(self, uid: str) -> bool:
        return self.tags.get(UID_TAG) == uid

    @property
    def changing(self) -> bool:
        """Whether AWS is at work on it: until it is done, it takes no further change."""
        return self.state == "Pending" or self.update == "InProgress"


def parse(answer: Object) -> Found:
    """Read the answer of GetFunction."""
    settings, code = answer["Configuration"], answer.get("Code") or {}
    vpc = settings.get("VpcConfig") or {}
    image = (settings.get("ImageConfigResponse") or {}).get("ImageConfig") or {}
    return Found(
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
