"""The rules of spec.network.recurrent: with which networks, algorithms and modes of sharing it goes."""

from nitro_api.algorithms.registry import RECORDS, listed
from nitro_api.base import Rule, declare, set_to
from nitro_api.spec.job import GivenSpec
from nitro_api.spec.network import GivenNetwork

_NAMES = [name for name, record in RECORDS.items() if record.recurrent]
_MODES = ("never", "always")
_WITHOUT = "!has(self.network.recurrent)"

declare(
    GivenNetwork,
    Rule(
        path="recurrent",
        cel="!has(self.recurrent) || (!has(self.convLayers) && (!has(self.type) || self.type == 'mlp'))",
        sentence="is only allowed with type: mlp and without convLayers; remove it or them",
    ),
)
declare(
    GivenSpec,
    Rule(
        path="network.recurrent",
        cel=f"{_WITHOUT} || {set_to('network.type', 'mlp')} "
        "|| !has(self.environment.id) || has(self.environment.entryPoint) "
        "|| !self.environment.id.startsWith('ALE/')",
        sentence="is only allowed with type: mlp, and Atari games have conv by default; remove it, or set "
        "network.type: mlp",
    ),
    Rule(
        path="network.recurrent",
        cel=f"{_WITHOUT} || (self.algorithm.name in {_NAMES} && (!has(self.algorithm.policies) "
        f"|| self.algorithm.policies.all(p, p.name in {_NAMES})))",
        sentence=f"is only allowed with the algorithms {listed(_NAMES, 'and')}; remove it, or set "
        f"algorithm.name: {listed(_NAMES, 'or')}",
    ),
    Rule(
        path="network.recurrent",
        cel=f"{_WITHOUT} || !has(self.sharing) || self.sharing.mode in {list(_MODES)}",
        sentence="is only allowed where the sharing of policies does not change, because a policy cannot go "
        f"on with another one's memory; remove it, or set sharing.mode: {listed(_MODES, 'or')}",
    ),
)
