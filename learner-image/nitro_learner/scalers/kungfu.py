"""KungFu's scaler: more actors as the gradient noise scale grows, never fewer (Mai et al., OSDI 2020; Nitro,
section 8.3).

    GNS_k = EMA(S_k) / EMA(G_k)
    I_{k+1} = clip(max(I_k, floor(I_ref GNS_k / GNS_ref)), I_min, I_max)

S_k and G_k come from `boosting.gradient_noise`, for the whole loss, as in KungFu. A GNS is valid if both
averages are above zero. The reference is the first round with a valid GNS. A round without one changes
nothing."""

import math
from typing import Any

from nitro_api import JobSpec
from nitro_learner.scalers.averaged_noise import AveragedNoise
from nitro_learner.scalers.base import Decision, Need, RoundOutcome, Scaler

_KEEP = 0.9
"""Weight of the old average when a new value comes."""


class KungFuScaler(Scaler):
    """Scale up with the gradient noise scale."""

    needs: frozenset[Need] = frozenset({"gradient-noise"})

    def __init__(self, spec: JobSpec) -> None:
        super().__init__(spec)
        self._noise = AveragedNoise(_KEEP)
        self._reference: tuple[float, int] | None = None

    def decide(self, outcome: RoundOutcome) -> Decision:
        scale = self._noise_scale(outcome)
        if scale is None:
            return Decision(outcome.actors)
        if self._reference is None:
            self._reference = (scale, outcome.actors)
        reference, actors = self._reference
        wanted = math.floor(min(actors * (scale / reference), self.scaling.max_actors))
        return Decision(self.clip(max(outcome.actors, wanted)))

    def _noise_scale(self, outcome: RoundOutcome) -> float | None:
        """EMA(S) / EMA(G), in transitions; None if it is not valid or nothing new was measured."""
        if not self._noise.add(outcome.statistics):
            return None
        signal, noise = self._noise.signal, self._noise.noise
        if signal is None or noise is None or signal <= 0 or noise <= 0:
            return None
        return noise / signal

    def state_dict(self) -> dict[str, Any]:
        reference = list(self._reference) if self._reference else None
        return {**self._noise.state_dict(), "reference": reference}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._noise.load_state_dict(state)
        self._reference = (state["reference"][0], state["reference"][1]) if state["reference"] else None
