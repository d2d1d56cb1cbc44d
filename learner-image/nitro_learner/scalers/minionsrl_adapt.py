"""The adaptive rule that MinionsRL is compared with (Yu et al., AAAI 2024): the nearer to the target, the
more actors.
"""

from collections import deque
from statistics import fmean
from typing import Any

from nitro_api import JobSpec
from nitro_learner.scalers.base import Decision, RoundOutcome, Scaler

_ROUNDS = 5


class MinionsRLAdaptScaler(Scaler):
    """I_{k+1} = clip(floor(mean of the last 5 rewards / target * I_max), I_min, I_max).

    A round's reward is the mean return of the training episodes that ended in it; rounds in which none ended
    are left out. Before the first reward: I_min. The target is spec.stop.targetReward.
    """

    def __init__(self, spec: JobSpec) -> None:
        super().__init__(spec)
        assert spec.stop.target_reward, "the job's validation asks for a target above zero"
        self._target = spec.stop.target_reward
        self._rewards: deque[float] = deque(maxlen=_ROUNDS)

    def decide(self, outcome: RoundOutcome) -> Decision:
        if outcome.reward_round is not None:
            self._rewards.append(outcome.reward_round)
        share = fmean(self._rewards) / self._target if self._rewards else 0.0
        return Decision(self.clip(share * self.scaling.max_actors))

    def state_dict(self) -> dict[str, Any]:
        return {"rewards": list(self._rewards)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._rewards = deque(state["rewards"], maxlen=_ROUNDS)
