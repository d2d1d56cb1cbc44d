"""The rules across the fields of images: preprocessing, and the networks that take them."""

from nitro_api.algorithms.registry import RECORDS, listed
from nitro_api.base import Rule, declare, matching, set_to
from nitro_api.errors import FieldError
from nitro_api.resolution.resolve import resolve
from nitro_api.rules.job_rules import ENTRY_POINT
from nitro_api.spec.environment import GivenEnvironment
from nitro_api.spec.job import GivenSpec, NitroTrainingJob
from nitro_api.spec.network import GivenNetwork, ImageTooSmall, image_sizes

_OWN = [name for name, record in RECORDS.items() if record.own_network]

declare(
    GivenEnvironment,
    Rule(
        path="atari",
        cel="!has(self.atari) || (has(self.id) && self.id.startsWith('ALE/') && !has(self.entryPoint))",
        sentence="is only allowed with an id that begins with ALE/ and without entryPoint; remove it",
    ),
    Rule(
        path="infoMetrics",
        cel="!has(self.infoMetrics) || has(self.entryPoint) || !has(self.id) || !(self.id.startsWith('ALE/') "
        "|| self.id.startsWith('smax/'))",
        sentence="is not allowed with Atari games and SMAX, which give no info; remove it",
    ),
)
declare(
    GivenNetwork,
    Rule(
        path="convLayers",
        cel="!has(self.convLayers) || !has(self.type) || self.type == 'conv'",
        sentence="is only allowed with type: conv; remove it or set type: conv",
    ),
    Rule(
        path="hiddenSizes",
        cel="!has(self.hiddenSizes) || self.hiddenSizes.size() > 0 || has(self.convLayers) "
        f"|| {set_to('type', 'conv', 'own')} || has(self.entryPoint)",
        sentence="must have at least one entry with type: mlp; give the units of each, such as [64, 64]",
    ),
    Rule(
        path="entryPoint",
        cel=f"!{set_to('type', 'own')} || has(self.entryPoint)",
        sentence="is required with type: own; name your module, such as my_package.networks:Net",
    ),
    matching("entryPoint", ENTRY_POINT, "must be module:Class; write it as my_package.networks:Net"),
    Rule(
        path="entryPoint",
        cel="!has(self.entryPoint) || !has(self.type) || self.type == 'own'",
        sentence="is only allowed with type: own, its default; remove it or type",
    ),
    *(
        Rule(
            path=field,
            cel=f"!has(self.entryPoint) || {without}",
            sentence="is only allowed without entryPoint, whose module has its own layers; remove it",
        )
        for field, without in (
            ("convLayers", "!has(self.convLayers)"),
            ("hiddenSizes", "!has(self.hiddenSizes) || self.hiddenSizes.size() == 0"),
        )
    ),
    Rule(
        path="recurrent",
        cel="!has(self.entryPoint) || !has(self.recurrent)",
        sentence="is only allowed without entryPoint, because a module of your own has no memory yet; remove "
        "one of them",
    ),
    matching("criticEntryPoint", ENTRY_POINT, "must be module:Class; write it as my_package.networks:Critic"),
    Rule(
        path="criticEntryPoint",
        cel="has(self.entryPoint) || !has(self.criticEntryPoint)",
        sentence="is only allowed with entryPoint, the policy's module; remove it or name that, too",
    ),
    Rule(
        path="settings",
        # CEL reads arbitrary JSON only through dyn(), as in algorithm_rules.py.
        cel="has(self.entryPoint) || !has(dyn(self).settings)",
        sentence="is only allowed with entryPoint, whose module gets them; remove it or name the module",
    ),
)
declare(
    GivenSpec,
    Rule(
        path="network.entryPoint",
        cel=f"!has(self.network.entryPoint) || self.algorithm.name in {_OWN}",
        sentence=f"is only allowed with the algorithm {listed(_OWN, 'and')}; remove it, or set "
        f"algorithm.name: {listed(_OWN, 'or')}",
    ),
)


def mistakes(job: NitroTrainingJob) -> list[FieldError]:
    """Errors of networks that do not fit the environment's observations, as far as they are known here."""
    if not job.spec.environment.is_atari:
        return []
    spec = resolve(job).spec
    layers = spec.network.conv_layers
    if spec.environment.atari is None or layers is None:
        return []
    size = spec.environment.atari.frame_size
    try:
        image_sizes(size, size, layers)
    except ImageTooSmall as error:
        path = f"spec.network.convLayers[{error.layer}].kernel"
        text = f"{error}; lower it, or raise spec.environment.atari.frameSize"
        return [FieldError(path, layers[error.layer].kernel, text)]
    return []
