"""What `nitro train` prints before and after training, and the commands that it suggests."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nitro_api import ResolvedJob
    from nitro_learner.run.rundir import RunDir
    from nitro_learner.run.runs import OpenRun
    from nitro_learner.training.round_report import Outcome


def command(words: Sequence[str], overrides: Sequence[str], arguments: argparse.Namespace) -> str:
    """A `nitro train` command line that a user can copy into a shell."""
    sets = [word for override in overrides for word in ("--set", override)]
    backend = ["--backend", "lambda"] if arguments.backend == "Lambda" else []
    code = ["--code", str(arguments.code)] if arguments.code else []
    return shlex.join(["nitro", "train", *words, *sets, *backend, *code])


def announce(folder: RunDir, job: ResolvedJob, opened: OpenRun) -> None:
    """Print what is trained, and where."""
    spec, scaling = job.spec, job.spec.scaling
    actors = f"{scaling.min_actors} to {scaling.max_actors}"
    if scaling.record.plan == "constant":
        actors = f"{scaling.initial_actors}"
    start = f", going on after round {opened.checkpoint.round}" if opened.checkpoint else ""
    if opened.source is not None:
        begun = folder.read_start()
        start = f", beginning with the policies of {begun['from']} after round {begun['round']}"
    print(
        f"{job.metadata.name}: {spec.environment.id}, {spec.algorithm.title} ({spec.algorithm.preset}), "
        f"{scaling.decider} scaler with {actors} actors of "
        f"{spec.environment.rollout_length} steps{start}\nrun folder: {folder.path}",
        flush=True,
    )


def other_ways(source: str, begun: Mapping[str, Any], job: ResolvedJob, arguments: argparse.Namespace) -> str:
    """What to do with a job that a run cannot go on under: train it anew, or from what the run has learned.

    Args:
        begun: what job.yaml says in the run's folder.
    """
    from nitro_api import resolve_stored
    from nitro_api.rules.resume_rules import differences

    ways = [f"To train the changed job in a new folder: {command([source], arguments.overrides, arguments)}"]
    if not differences(resolve_stored(begun).spec, job.spec):
        tuned = command([source, "--from", str(arguments.resume)], arguments.overrides, arguments)
        ways.append(f"To train it there from what this run has learned: {tuned}")
    return "\n".join(ways)


def conclude(folder: RunDir, outcome: Outcome, result: dict[str, Any]) -> None:
    """Print the results of a run that has ended."""
    from nitro_api.costs.amounts import dollars

    print(f"done: {outcome.message}")
    if "evaluation" in result:
        score = result["evaluation"]
        print(
            f"final return {score['mean']:.1f} ± {score['std']:.1f} over {score['episodes']} episodes "
            f"with mean actions ({score['min']:.1f} to {score['max']:.1f})"
        )
        if sets := score.get("sets"):
            told = ", ".join(f"{name} {mean:.1f}" for name, mean in sets.items())
            print(f"of each set: {told}; {next(iter(sets))} decides")
        best = result.get("best")
        if best and best["mean"] > score["mean"]:
            again = shlex.join(["nitro", "evaluate", str(folder.path), "--best"])
            print(f"best evaluation {best['mean']:.1f}, after round {best['round']}: {again}")
    if "envSteps" in result:
        reward, cost = result["rewardMean"], result["cost"]
        total, learner, actors = dollars(cost["learner"], cost["actors"])
        mark = "*" if "rewardNote" in result else ""
        last = "no training episode ended" if reward is None else f"last 20 training episodes {reward:.1f}"
        print(
            f"{last}{mark}, {result['envSteps']:,.0f} steps in {result['wallSeconds']:.1f} s, "
            f"{total} (learner {learner}, actors {actors})"
        )
        if mark:
            print(f"* {result['rewardNote']}")
    if "pretraining" in result:
        agent = result["pretraining"]
        print(
            f"its scaling agent took {agent['episodes']} training runs before, at "
            f"{dollars(agent['learner'], agent['actors'])[0]}, which is not counted here"
        )
    if folder.plot.is_file():
        print(f"picture: {folder.plot}")
    print(f"summary: {folder.summary}", flush=True)


def already_ended(opened: OpenRun, arguments: argparse.Namespace) -> str:
    """The text for a resume of a run that has ended, with the command that extends it."""
    from nitro_learner.training import stop

    folder, spec = opened.folder, opened.job.spec
    assert opened.ended, "the run has ended"
    why = stop.decide(spec.stop, opened.ended)
    assert why, "a stop condition holds"
    raised = stop.extended(spec.stop, opened.ended)
    longer = {f"spec.stop.{name}": value for name, value in raised.items()}
    # A field that is given twice would leave the user to find out which of the two counts.
    kept = [override for override in arguments.overrides if override.partition("=")[0].strip() not in longer]
    overrides = [*kept, *(f"{path}={value}" for path, value in longer.items())]
    done = f"{folder.path} is finished: {why.message}. Nothing was trained, evaluated or charged."
    if "rounds" in raised and spec.algorithm.anneals:
        return (
            f"{done}\nIts learning rate has fallen to zero over its rounds, so it cannot be extended. "
            f"A longer run: {command([str(folder.job)], overrides, arguments)}"
        )
    return f"{done}\nTo extend it: {command(['--resume', str(folder.path)], overrides, arguments)}"


def own_remedy(part: str, folder: RunDir, go_on: str) -> str:
    """The text that tells a user what to do after their own scaler or algorithm failed."""
    return (
        f"\nIf it raised, its traceback is in {folder.log}.\nIf you resume now, it fails in the same way. "
        f"Mend the {part}'s code first; it must read the state that it has saved.\nThen go on: {go_on}"
    )


def environment_remedy(folder: RunDir, go_on: str, *, traced: bool) -> str:
    """The text that tells a user what to do after their environment failed."""
    kept = [f"The full traceback is in {folder.log}."] if traced else []
    kept += [f"What the actors printed is in {folder.actors}."] if folder.actors.exists() else []
    return "\n".join(
        [
            "",
            *kept,
            "If you resume now, it fails in the same way. Mend the environment's code first; its spaces must "
            "stay the same.",
            f"Then go on: {go_on}",
        ]
    )
