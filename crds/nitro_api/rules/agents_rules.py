"""The rules about the number of agents: what needs several of them, and which environments have them."""

from nitro_api.algorithms.registry import RECORDS, TEAM_RECORDS, listed
from nitro_api.base import Rule, declare, set_to
from nitro_api.errors import ABSENT, FieldError
from nitro_api.resolution.episodes import NOT_RESUMABLE, RESUMABLE
from nitro_api.resolution.resolve import preset_of
from nitro_api.spec.job import GivenSpec, NitroTrainingJob
from nitro_api.spec.sharing import Sharing

SEVERAL_AGENTS = "^([A-Za-z_][A-Za-z0-9_.]*(/[A-Za-z_][A-Za-z0-9_]*)+_v[0-9]+|smax/[0-9a-z_]+)$"
"""Ids of environments of several agents: package/module, or a map of SMAX. Gymnasium's ids end in -v0 or
similar, so they do not match."""

COMPETITIVE = tuple(f"mpe2/simple_{name}_v3" for name in ("adversary", "crypto", "push", "tag", "world_comm"))
"""Ids whose agents are opponents, so that they have no common reward."""

OWN_REWARDS = ("mpe2/simple_reference_v3", "mpe2/simple_spread_v3")
"""Ids whose agents have a common reward only with the argument local_ratio: 0."""

_TEAMS, _COMMON = list(TEAM_RECORDS), [name for name, record in RECORDS.items() if record.common_reward]
_ONE_AGENT_IDS = sorted(RESUMABLE | NOT_RESUMABLE)
_A_TEAM = f"self.algorithm.name in {_TEAMS}"
_ITS_ID = "has(self.environment.id) && !has(self.environment.entryPoint)"
_WINDOW = Sharing.model_fields["window"].default
_NAMES = listed(_TEAMS, "or")


def _only_for_several(path: str, unset: str) -> Rule:
    """The rule that a field is set for several agents only. `unset` says in CEL that it is not."""
    return Rule(
        path=path,
        cel=f"{unset} || {_A_TEAM}",
        sentence="is only allowed with an algorithm of several agents; remove it or set algorithm.name: "
        f"{_NAMES}",
    )


declare(
    GivenSpec,
    _only_for_several("algorithm.policies", "!has(self.algorithm.policies)"),
    _only_for_several("algorithm.teamReward", "!has(self.algorithm.teamReward)"),
    _only_for_several("sharing", "!has(self.sharing)"),
    _only_for_several("scaling.scaler", f"!{set_to('scaling.scaler', 'marless')}"),
    Rule(
        path="network.type",
        cel=f"!({_A_TEAM}) || ((!has(self.network.type) || self.network.type == 'mlp') "
        "&& !has(self.network.convLayers))",
        sentence="must be mlp, without convLayers, with an algorithm of several agents; change it",
    ),
    Rule(
        path="environment.id",
        cel=f"{_A_TEAM} || !({_ITS_ID} && self.environment.id.matches(r'{SEVERAL_AGENTS}'))",
        sentence=f"is an environment of several agents, so its algorithm must be one of several agents; set "
        f"algorithm.name: {_NAMES}",
    ),
    Rule(
        path="environment.id",
        cel=f"!({_A_TEAM}) || !({_ITS_ID} && (self.environment.id.startsWith('ALE/') "
        f"|| self.environment.id in {_ONE_AGENT_IDS}))",
        sentence="is an environment of one agent, so its algorithm must be one of one agent; set "
        "algorithm.name: ppo, or choose an environment of several agents, such as mpe2/simple_spread_v3",
    ),
    Rule(
        path="algorithm.teamReward",
        cel=f"!(self.algorithm.name in {_COMMON}) || has(self.algorithm.policies) "
        "|| (has(self.algorithm.teamReward) && self.algorithm.teamReward) "
        f"|| !({_ITS_ID} && self.environment.id in {list(COMPETITIVE)})",
        sentence="must be true with an algorithm that needs a common reward, because the agents of this "
        "environment have none; set it, or give each side an entry of algorithm.policies",
    ),
    Rule(
        path="sharing.toggles",
        cel="!has(self.sharing) || !has(self.sharing.toggles) || !has(self.stop) || !has(self.stop.rounds) "
        f"|| self.sharing.toggles * (has(self.sharing.window) ? self.sharing.window : {_WINDOW}) "
        "< self.stop.rounds",
        sentence="must be less than stop.rounds / sharing.window, because there are sharing.window rounds "
        "before each toggle; lower it or the window, or raise stop.rounds",
    ),
)
declare(
    Sharing,
    Rule(
        path="toggles",
        cel="self.mode != 'random-toggle' || has(self.toggles)",
        sentence="is required with mode: random-toggle; give how often sharing begins or ends, such as 8",
    ),
    Rule(
        path="toggles",
        cel="self.mode == 'random-toggle' || !has(self.toggles)",
        sentence="is only allowed with mode: random-toggle; remove it or set mode: random-toggle",
    ),
)


def _lacks_a_common_reward(spec: GivenSpec) -> bool:
    """Whether the algorithm needs one common reward, which the job does not make from the agents' rewards."""
    algorithm = spec.algorithm
    return (
        algorithm.record.common_reward
        and not algorithm.team_reward
        and algorithm.policies is None
        and spec.environment.entry_point is None
    )


def mistakes(job: NitroTrainingJob) -> list[FieldError]:
    """Errors that depend on the environment's arguments, which rules in CEL cannot read, or on values that
    the job leaves out."""
    return [*_own_rewards(job.spec), *_too_many_toggles(job.spec)]


def _own_rewards(spec: GivenSpec) -> list[FieldError]:
    if not (_lacks_a_common_reward(spec) and spec.environment.id in OWN_REWARDS):
        return []
    if spec.environment.kwargs.get("local_ratio") == 0:
        return []
    text = (
        f"must be true with {spec.algorithm.name} in {spec.environment.id}, whose agents have rewards of "
        "their own; set it, or set spec.environment.kwargs.local_ratio: 0"
    )
    return [FieldError("spec.algorithm.teamReward", spec.algorithm.team_reward or ABSENT, text)]


def _too_many_toggles(spec: GivenSpec) -> list[FieldError]:
    """The rule of sharing.toggles above, for a job that leaves stop.rounds out."""
    if spec.sharing is None or spec.sharing.toggles is None or "rounds" in spec.stop.to_dict():
        return []
    rounds, window, toggles = preset_of(spec)["stop.rounds"], spec.sharing.window, spec.sharing.toggles
    most = (rounds - 1) // window
    if toggles <= most:
        return []
    text = (
        f"must be at most {most}, because there are spec.sharing.window, {window}, rounds before each, and "
        f"stop.rounds is {rounds} by default; lower it or the window, or set stop.rounds"
    )
    return [FieldError("spec.sharing.toggles", toggles, text)]
