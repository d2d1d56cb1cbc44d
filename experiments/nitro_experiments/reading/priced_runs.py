"""Finished runs priced again: what they would have cost by a price list, with actors beside each other."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np

from nitro_api import ResolvedJob
from nitro_api.costs.prices import serverless_cost, vm_cost
from nitro_experiments.reading.curves import FinishedRun, Floats
from nitro_experiments.reading.price_list import PriceList
from nitro_learner.run.rundir import RunDir, RunDirError


def priced(run: FinishedRun, folder: RunDir, job: ResolvedJob, prices: PriceList) -> FinishedRun:
    """The run with the columns `modelled_cost` and `modelled_seconds`, both as sums up to each round.

    A round takes as long as its actors' mean invocation, because they sample beside each other, its update,
    and its detector where there was one. Invocations are those of the run's ledger. Where the list has an
    actor's seconds, they are the round's rollouts, and evaluations are left out.

    Raises:
        RunDirError: the ledger is damaged, or lacks a round.
    """
    columns = run.columns
    transitions = np.diff(columns["env_steps"], prepend=0.0)
    measured = prices.seconds_of(job)
    if measured:
        update = measured.of(measured.update, transitions)
        examined = np.full(len(update), job.spec.scaling.min_actors * job.spec.environment.rollout_length)
        detector = measured.of(measured.detector, examined)
        detector = np.where(np.isfinite(columns["convexity_ratio"]), detector, 0.0)
    else:
        update, detector = (np.nan_to_num(columns[f"seconds_{stage}"]) for stage in ("update", "detect"))
    if prices.actor_seconds:
        length = job.spec.environment.rollout_length
        per_actor = prices.actor_seconds.invocation + length * prices.actor_seconds.step
        counts = (transitions / length).astype(int).tolist()
        worked = np.full(len(counts), per_actor)
        invocations = [(count, count * per_actor) for count in counts]
    else:
        worked = np.nan_to_num(columns["seconds_actor"])
        invocations = _invocations(folder, columns["round"])
    seconds = worked + update + detector
    pricing = prices.pricing_of(job)
    dollars = []
    for wall, (count, billed) in zip(seconds, invocations, strict=True):
        if pricing.model == "vm":
            dollars.append(vm_cost(pricing, wall).total)
        else:
            billings = [billed / count] * count if count else []
            dollars.append(serverless_cost(pricing, wall, billings, prices.provisioned_concurrency).total)
    modelled = {"modelled_cost": np.cumsum(dollars), "modelled_seconds": np.cumsum(seconds)}
    return replace(run, columns={**columns, **modelled})


def _invocations(folder: RunDir, rounds: Floats) -> list[tuple[int, float]]:
    """How many invocations each round had, and their billed seconds; of a repeated round those of the last
    time."""
    paid: dict[int, tuple[int, float]] = {}
    try:
        for text in folder.ledger.read_text(encoding="utf-8").splitlines():
            entry = json.loads(text)
            details = entry["details"]
            paid[entry["round"]] = int(details["invocations"]), float(details["billedSeconds"])
        return [paid[int(round)] for round in rounds]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunDirError(
            f"{folder.ledger} cannot be priced again ({type(error).__name__}: {error}). Restore the file, or "
            "leave --prices out."
        ) from None
