"""The weights container: every policy of one version, and which agent plays which of them.

One key in Redis holds all policies, so a request names one key for any number of policies.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from nitro_actor import PROTOCOL_VERSION, wire
from nitro_actor.protocol import fields
from nitro_actor.protocol.agents import AGENT
from nitro_actor.protocol.fields import MetadataError

DEFAULT_POLICY = "default"
"""The policy of an environment of one agent."""


@dataclass(frozen=True)
class PolicyWeights:
    """One policy.

    Attributes:
        network: its description; `nitro_actor.networks` says what the kinds need, and
            `nitro_actor.policy` what it may have besides.
        tensors: parameters, and statistics that normalise observations, by name.
        observation_clip: limit of normalised observations, None for no limit.
    """

    network: Mapping[str, Any]
    tensors: Mapping[str, np.ndarray]
    observation_clip: float | None = None

    @classmethod
    def of(cls, meta: Mapping[str, Any], tensors: Mapping[str, np.ndarray]) -> "PolicyWeights":
        """Make it from its tensors and its entry in a container's metadata, `network` and `observationClip`.

        A number is a tensor without axes: earlier checkpoints have numbers in their place.

        Raises:
            MetadataError: the text names the field.
        """
        clip = meta.get("observationClip")
        # The number is not converted to a float first, because a whole number may be too large for a float.
        if clip is not None and (type(clip) not in (int, float) or not 0 < clip < math.inf):
            raise MetadataError(f"observationClip: {clip!r} is no positive number")
        arrays = {name: np.asarray(tensor) for name, tensor in tensors.items()}
        return cls(fields.mapping(meta, "network"), arrays, clip)

    @property
    def meta(self) -> dict[str, Any]:
        """Its entry in a container's metadata."""
        return {"network": dict(self.network), "observationClip": self.observation_clip}


@dataclass(frozen=True)
class WeightsContainer:
    """The policies of one version.

    Attributes:
        policies: by name; their order is the order in the message.
        agents: the name of the policy that each agent plays.
    """

    run: str
    version: int
    policies: Mapping[str, PolicyWeights]
    agents: Mapping[str, str]

    @classmethod
    def of_one_agent(cls, run: str, version: int, policy: PolicyWeights) -> "WeightsContainer":
        """Make the container of an environment of one agent."""
        return cls(run, version, {DEFAULT_POLICY: policy}, {AGENT: DEFAULT_POLICY})

    def encode(self) -> bytes:
        """Write the message; equal containers give equal bytes.

        Raises:
            WireError: a tensor's dtype cannot be sent.
        """
        meta = {
            "protocol": PROTOCOL_VERSION,
            "run": self.run,
            "version": self.version,
            "policies": [{"name": name, **policy.meta} for name, policy in self.policies.items()],
            "agents": dict(self.agents),
        }
        return wire.encode(
            meta,
            {
                f"policy/{j}/{name}": array
                for j, policy in enumerate(self.policies.values())
                for name, array in policy.tensors.items()
            },
        )

    @classmethod
    def decode(cls, data: bytes) -> "WeightsContainer":
        """Read a message. Whether the tensors fit the network is checked where the policy is built.

        Raises:
            ProtocolError: it is of another protocol version.
            WireError: anything else is wrong; the text names the field or tensor.
        """
        meta, tensors = wire.decode(data)
        fields.require_version(meta, "the weights container", "actor")
        entries = meta.get("policies")
        if not (isinstance(entries, list) and entries and all(isinstance(entry, dict) for entry in entries)):
            raise MetadataError("policies: must be a list of at least one policy")
        by_policy: list[dict[str, np.ndarray]] = [{} for _ in entries]
        for name, array in tensors.items():
            j, own = _policy_and_name(name, len(entries))
            by_policy[j][own] = array
        names = [fields.matching(entry, "name", fields.NAME, "a policy") for entry in entries]
        if len(set(names)) < len(names):
            raise MetadataError(f"policies: names must differ, got {names}")
        return cls(
            run=fields.matching(meta, "run", fields.RUN, "a run"),
            version=fields.whole(meta, "version"),
            policies=dict(zip(names, map(PolicyWeights.of, entries, by_policy), strict=True)),
            agents=_agents(fields.mapping(meta, "agents"), names),
        )

    def require_agents(self, agents: Iterable[str]) -> None:
        """Check that the container's agents are those of the environment.

        Raises:
            MetadataError: an agent is missing, or is not the environment's.
        """
        wanted = sorted(agents)
        if sorted(self.agents) != wanted:
            raise MetadataError(f"agents: {sorted(self.agents)}, but the environment has {wanted}")


def _policy_and_name(name: str, count: int) -> tuple[int, str]:
    """Split `policy/{j}/{name}`."""
    prefix, _, rest = name.partition("/")
    index, _, own = rest.partition("/")
    # Exactly the text that `encode` writes: `policy/00/x` would be a second name of `policy/0/x`.
    if prefix != "policy" or not own or index not in map(str, range(count)):
        raise MetadataError(
            f"tensor {name}: not expected here; there are {count} policies, from policy/0/ on"
        )
    return int(index), own


def _agents(agents: Mapping[str, Any], policies: list[str]) -> dict[str, str]:
    if not agents:
        raise MetadataError("agents: must name at least one agent")
    for agent, policy in agents.items():
        if not fields.NAME.fullmatch(agent):
            raise MetadataError(f"agents: {agent!r} is no name of an agent")
        if policy not in policies:
            raise MetadataError(f"agents.{agent}: there is no policy {policy!r}, only {policies}")
    return dict(agents)
