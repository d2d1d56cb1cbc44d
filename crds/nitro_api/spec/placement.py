"""The nodes on which a pod may run, in Kubernetes' own terms."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from nitro_api.base import NAME_PATTERN, Model

DOMAIN = NAME_PATTERN[1:-1]
QUALIFIED = "[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
"""What stands before and after the slash in the key of a label, and in the name of a device."""
KEY_PATTERN = f"^({DOMAIN}/)?{QUALIFIED}$"
VALUE_PATTERN = "^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$"
Key = Annotated[str, Field(min_length=1, max_length=317, pattern=KEY_PATTERN)]
"""Key of a label: a prefix of 253 characters, a slash and a name of 63 at most."""
Value = Annotated[str, Field(max_length=63, pattern=VALUE_PATTERN)]
"""Value of a label."""
Labels = Annotated[dict[str, Value], Field(max_length=32)]
Values = Annotated[list[Value], Field(max_length=16)]
Weight = Annotated[int, Field(ge=1, le=100)]


class Toleration(Model):
    """A taint that the pod accepts, as Kubernetes has it."""

    key: Key | None = None
    """Key of the taint; absent means every key, with operator Exists. Default: every key."""

    operator: Literal["Exists", "Equal"] = "Equal"
    """Whether the taint's value matters (Equal) or not (Exists). Default: Equal."""

    value: Value | None = None
    """Value of the taint, with operator Equal. Default: empty."""

    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """Effect of the taint. Default: every effect."""

    toleration_seconds: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = None
    """How long a NoExecute taint is borne. Unit: seconds. Default: for ever."""


class NodeRequirement(Model):
    """A condition on a node's labels."""

    key: Key
    """Key of the label."""

    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    """How the label and `values` relate."""

    values: Values | None = None
    """Values to compare with. Default: none."""


class NodeTerm(Model):
    """Conditions that must hold together."""

    match_expressions: Annotated[list[NodeRequirement], Field(min_length=1, max_length=16)]
    """The conditions."""


class NodeTerms(Model):
    """Terms of which one must hold."""

    node_selector_terms: Annotated[list[NodeTerm], Field(min_length=1, max_length=16)]
    """The terms."""


class PreferredNodeTerm(Model):
    """A term that counts in favour of a node."""

    weight: Weight
    """How much it counts."""

    preference: NodeTerm
    """The term."""


class NodeAffinity(Model):
    """Nodes that the pod needs or prefers."""

    required_during_scheduling_ignored_during_execution: NodeTerms | None = None
    """What a node must have. Default: nothing."""

    preferred_during_scheduling_ignored_during_execution: (
        Annotated[list[PreferredNodeTerm], Field(max_length=16)] | None
    ) = None
    """What a node should have. Default: nothing."""


class LabelRequirement(Model):
    """A condition on the labels of other pods."""

    key: Key
    """Key of the label."""

    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    """How the label and `values` relate."""

    values: Values | None = None
    """Values to compare with. Default: none."""


class LabelSelector(Model):
    """Which other pods count."""

    match_labels: Labels | None = None
    """Labels that they have, such as {nitro.dev/job: hopper}. Default: any."""

    match_expressions: Annotated[list[LabelRequirement], Field(max_length=16)] | None = None
    """Conditions that hold for them. Default: none."""


class PodTerm(Model):
    """A place among other pods of the job's namespace."""

    label_selector: LabelSelector
    """Which pods."""

    topology_key: Key
    """Label of nodes; nodes with one value of it are one place, such as kubernetes.io/hostname."""


class PreferredPodTerm(Model):
    """A term that counts in favour of a node."""

    weight: Weight
    """How much it counts."""

    pod_affinity_term: PodTerm
    """The term."""


class PodAffinity(Model):
    """Other pods that the pod is to be near to, or apart from."""

    required_during_scheduling_ignored_during_execution: (
        Annotated[list[PodTerm], Field(max_length=16)] | None
    ) = None
    """What must hold. Default: nothing."""

    preferred_during_scheduling_ignored_during_execution: (
        Annotated[list[PreferredPodTerm], Field(max_length=16)] | None
    ) = None
    """What should hold. Default: nothing."""


class Affinity(Model):
    """Conditions on the node of a pod, as Kubernetes has them."""

    node_affinity: NodeAffinity | None = None
    """Nodes that it needs or prefers. Default: any."""

    pod_affinity: PodAffinity | None = None
    """Pods of the job's namespace to be near to. Default: none."""

    pod_anti_affinity: PodAffinity | None = None
    """Pods of the job's namespace to be apart from. Default: none."""


class TopologySpreadConstraint(Model):
    """How evenly pods are spread over zones or nodes, as Kubernetes has it."""

    max_skew: Annotated[int, Field(ge=1, le=1000)] = 1
    """By how many pods two places may differ. Default: 1."""

    topology_key: Key
    """Label of nodes; nodes with one value of it are one place, such as topology.kubernetes.io/zone."""

    when_unsatisfiable: Literal["DoNotSchedule", "ScheduleAnyway"]
    """What happens to a pod that would break it."""

    label_selector: LabelSelector
    """Which pods are counted."""
