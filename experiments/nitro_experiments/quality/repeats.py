"""Statistics of a round measured several times, each on new samples, as the run's scaler would have."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from nitro_api import ResolvedJob
from nitro_experiments.quality.agreement import Floats
from nitro_experiments.studies.probe import opened
from nitro_learner.algorithms.base import UpdateResult
from nitro_learner.boosting.detector import Detector, transitions
from nitro_learner.boosting.gradient_noise import NoiseMeter
from nitro_learner.run.rundir import RunDir
from nitro_learner.training.round_report import STATISTICS

# Statistics that mostly keep their sign, and whose magnitudes differ by powers of ten.
_LOGARITHMIC = frozenset({"convexity_ratio", "lambda_min", "lambda_max"})


async def repeat(
    folder: RunDir,
    job: ResolvedJob,
    rounds: Sequence[int],
    repeats: int,
    progress: Callable[[int], None],
) -> dict[str, Floats]:
    """Every statistic at some rounds, f64 [rounds, repeats]. Those that a measurement lacks are left out.

    Each repeat samples minActors slots with the round's policy. The slots begin in the states in which the
    round's slots began. The repeat then updates from the checkpoint before the round, and measures. The
    repeats therefore differ as much as the round would differ if it were sampled again.

    Args:
        progress: called with each round that is done.

    Raises:
        RunDirError, CheckpointError, BackendError, CacheError, RoundFailed
    """
    spec = job.spec
    actors = spec.scaling.min_actors
    detector = Detector(spec.scaling, spec.seed, transitions(spec))
    meter = NoiseMeter(spec.scaling, actors * spec.environment.rollout_length)

    def measure(update: UpdateResult, round: int) -> dict[str, float | None]:
        curvature, noise = detector.measure(update.surrogate, round), meter.measure(update.surrogate)
        return update.stats | {
            "convexity_ratio": curvature.ratio,
            "lambda_min": curvature.lambda_min,
            "lambda_max": curvature.lambda_max,
            "gradient_signal": noise.noise.signal if noise.noise else None,
            "gradient_noise": noise.noise.noise if noise.noise else None,
            "gradient_snr": noise.snr,
        }

    measured: list[list[Mapping[str, float | None]]] = []
    for round in rounds:
        async with opened(folder, job, round) as probe:
            before = copy.deepcopy(probe.policies.state_dict())
            by_repeat: list[Mapping[str, float | None]] = []
            for fragments in await probe.samples(actors, repeats):
                probe.policies.load_state_dict(before)
                update = await probe.update(fragments)
                by_repeat.append(await probe.compute.measure(measure, update, round))
            measured.append(by_repeat)
        progress(round)
    return _tables(measured)


def _tables(measured: Sequence[Sequence[Mapping[str, float | None]]]) -> dict[str, Floats]:
    tables = {}
    for name in STATISTICS:
        rows = [[statistics.get(name) for statistics in repeats] for repeats in measured]
        table = np.array([[math.nan if x is None else x for x in repeats] for repeats in rows])
        if np.isfinite(table).all():
            tables[name] = compared(name, table)
    return tables


def compared(name: str, values: Floats) -> Floats:
    """A statistic's values in the form in which they are compared.

    For the statistics of _LOGARITHMIC this is the logarithm of the magnitude. Where all values are negative,
    its sign is reversed, so that the order stays. Values of both signs stay as they are.
    """
    if name not in _LOGARITHMIC or not ((values > 0).all() or (values < 0).all()):
        return values
    logarithms: Floats = np.sign(values) * np.log(np.abs(values))
    return logarithms
