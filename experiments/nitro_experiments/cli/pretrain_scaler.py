"""Train the scaling agent of a job with `scaler: minionsrl`: every episode is a whole training run of the
job on this machine.

The agent goes into the file that spec.scaling.agent names, after each episode. Run the command again to go on
after an interruption, or with more episodes. What the training runs cost is kept in the file, apart from the
runs that use the agent.

examples:
  nitro pretrain-scaler job.yaml
  nitro pretrain-scaler job.yaml --episodes 20 --beta 5
  nitro pretrain-scaler job.yaml --set spec.scaling.agent=agents/hopper.safetensors
"""

from __future__ import annotations

import argparse
import shlex
import sys
from typing import TYPE_CHECKING

from nitro_learner.cli import interrupts
from nitro_learner.cli.common import add_set, read_job, some_path
from nitro_learner.cli.exits import ABORTED, BAD_INPUT, DONE, FAILED, INTERRUPTED, CommandError

if TYPE_CHECKING:
    from nitro_experiments.studies.pretraining import Episode


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", type=some_path, metavar="JOB.yaml", help="job file with scaler: minionsrl")
    parser.add_argument(
        "--episodes", type=int, default=100, metavar="N", help="training runs to learn from; default: 100"
    )
    parser.add_argument(
        "--beta",
        type=float,
        default=1.0,
        metavar="B",
        help="return that a second of training is worth; default: 1",
    )
    add_set(parser)


def run(arguments: argparse.Namespace) -> int:
    from nitro_learner.studies.resolved_job import backend_overrides

    if arguments.episodes < 1:
        raise CommandError(f"--episodes {arguments.episodes}: at least 1")
    if not 0 <= arguments.beta < float("inf"):
        raise CommandError(f"--beta {arguments.beta}: a number from 0 on")
    job = read_job(arguments.job, [*arguments.overrides, *backend_overrides("Local")])
    if "agent" not in job.spec.scaling.record.fields:
        raise CommandError(
            f"{arguments.job}: spec.scaling.scaler is {job.spec.scaling.scaler}; only minionsrl has an agent "
            "to pre-train"
        )
    # Imported only now: they load torch, which takes seconds.
    from nitro_api.costs.amounts import dollars
    from nitro_experiments.studies.pretraining import pretrain
    from nitro_learner.checkpoints.store import CheckpointError
    from nitro_learner.run import logs
    from nitro_learner.run.session import Aborted
    from nitro_learner.scalers.agent import AgentError
    from nitro_learner.training.failures import TrainingFailed
    from nitro_learner.training.waiting import Interrupted

    interrupts.orderly()
    logs.configure(structured=False)
    go_on = f"To go on: nitro pretrain-scaler {shlex.quote(str(arguments.job))} ..., as before"
    try:
        agent = pretrain(
            job,
            arguments.episodes,
            beta=arguments.beta,
            done=lambda number, episode: _tell(number, arguments.episodes, episode),
            warn=lambda: print("stopping; this episode is played anew", file=sys.stderr),
        )
    except AgentError as error:
        raise CommandError(str(error), BAD_INPUT) from None
    except (CheckpointError, TrainingFailed) as error:
        raise CommandError(f"{error}\n{go_on}", FAILED) from None
    except Interrupted:
        print(go_on, file=sys.stderr)
        return INTERRUPTED
    except Aborted:
        raise CommandError(f"aborted. {go_on}", ABORTED) from None
    spent = agent.spent
    total, learner, actors = dollars(spent.learner, spent.actors)
    print(
        f"agent: {job.spec.scaling.agent}, {agent.episodes} episodes\n"
        f"pre-training cost {total} (learner {learner}, actors {actors}) "
        f"for {spent.rounds:,} rounds, {spent.env_steps:,} steps, {spent.seconds:,.0f} s: "
        "counted apart from the runs that use it"
    )
    return DONE


def _tell(number: int, episodes: int, episode: Episode) -> None:
    actors = episode.actors
    print(
        f"episode {number}/{episodes}: {len(actors)} rounds, best evaluation {episode.best:.1f}, "
        f"{min(actors)} to {max(actors)} actors, {sum(actors) / len(actors):.1f} on average, "
        f"${episode.spent.dollars:.4f}",
        flush=True,
    )
