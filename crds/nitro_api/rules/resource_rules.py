"""Rules of a container's resources: what the API server would refuse in a pod."""

from __future__ import annotations

from nitro_api.base import Rule, declare
from nitro_api.spec.placement import DOMAIN, QUALIFIED
from nitro_api.spec.pods import Resources

_NAME = f"^(cpu|memory|ephemeral-storage|hugepages-[0-9]+[KMGT]i|{DOMAIN}/{QUALIFIED})$"
_WHOLE = "^[0-9]+$"


def _each(block: str, cel: str, sentence: str) -> Rule:
    """A rule about each resource of requests or limits: its `name` and, as text, its `amount`."""
    each = cel.replace("amount", f"string(self.{block}[name])")
    return Rule(
        path=block,
        cel=f"!has(self.{block}) || self.{block}.all(name, {each})",
        sentence=sentence,
    )


for _block in ("requests", "limits"):
    declare(
        Resources,
        _each(
            _block,
            "!amount.startsWith('-')",
            "must not be negative; write amounts as 500m, 2 or 4Gi",
        ),
        _each(
            _block,
            f"name.matches(r'{_NAME}')",
            "must name cpu, memory, ephemeral-storage, hugepages-2Mi and the like, or a device with its "
            "domain, such as nvidia.com/gpu; correct the name",
        ),
        _each(
            _block,
            f"!name.contains('/') || amount.matches('{_WHOLE}')",
            "must have devices, such as nvidia.com/gpu, in whole numbers; write the amount as 1",
        ),
    )
declare(
    Resources,
    Rule(
        path="requests",
        # A value that is no quantity is refused by its pattern.
        cel="!has(self.requests) || !has(self.limits) || self.requests.all(name, !(name in self.limits) "
        "|| !isQuantity(string(self.requests[name])) || !isQuantity(string(self.limits[name])) "
        "|| quantity(string(self.requests[name])).compareTo(quantity(string(self.limits[name]))) <= 0)",
        sentence="must be at most the limits; lower the request or raise the limit",
    ),
    Rule(
        path="requests",
        cel="!has(self.requests) || self.requests.all(name, !name.contains('/') "
        "&& !name.startsWith('hugepages-') || has(self.limits) && name in self.limits "
        "&& string(self.limits[name]) == string(self.requests[name]))",
        sentence="must have devices, such as nvidia.com/gpu, and hugepages with the amount that limits has; "
        "give it there too",
    ),
)
