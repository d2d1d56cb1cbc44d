"""The rules across the fields of images: preprocessing, and the networks that take them."""

from nitro_api.base import Rule, declare, set_to
from nitro_api.errors import FieldError
from nitro_api.resolution.resolve import resolve
from nitro_api.spec.environment import GivenEnvironment
from nitro_api.spec.job import NitroTrainingJob
from nitro_api.spec.network import GivenNetwork, ImageTooSmall, image_sizes

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
        f"|| {set_to('type', 'conv')}",
        sentence="must have at least one entry with type: mlp; give the units of each, such as [64, 64]",
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
