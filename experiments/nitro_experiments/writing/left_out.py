"""What a report leaves out, and says so: seeds and variants that are not compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from nitro_experiments.planning.spec import Experiment
from nitro_experiments.statistics.results import Results


def changed_seeds(seed_history: Sequence[Mapping[str, Any]], experiment: Experiment) -> Iterator[str]:
    """Which seeds are not those that the file named before the first run had ended."""
    first, *later = seed_history or [{"seeds": experiment.seeds}]
    known: list[int] = first["seeds"]
    for change in later:
        added = [seed for seed in change["seeds"] if seed not in known]
        known = [*known, *added]
        if added:
            yield (
                f"Not planned: the seeds {', '.join(map(str, added))} were added when {change['ended']} runs "
                "had ended. Adding seeds until a result looks good overstates it.\n"
            )
    left_out = [seed for seed in first["seeds"] if seed not in experiment.seeds]
    if left_out:
        yield f"Planned, but left out later: the seeds {', '.join(map(str, left_out))}.\n"


def environments(collected: Sequence[Results]) -> Iterator[str]:
    """The environments without a seed that counts, of which a report has no section."""
    for result in collected:
        if not result.seeds:
            text = f"{result.environment} is left out: no seed is finished by every variant."
            yield f"{text} {ended_early(result)}".rstrip() + "\n"


def compared(results: Results) -> str:
    """The seeds that are compared in an environment, and the variants that are not."""
    seeds = ", ".join(map(str, results.seeds))
    sentences = [f"{len(results.seeds)} paired {'seed' if len(results.seeds) == 1 else 'seeds'}: {seeds}."]
    if results.missing:
        sentences.append(f"Without a finished run, hence left out: {', '.join(results.missing)}.")
    return " ".join([*sentences, ended_early(results)]).rstrip()


def ended_early(results: Results) -> str:
    """The variants that are left out because runs of theirs ended before the budget; else empty."""
    if not results.early:
        return ""
    variants = ", ".join(
        f"{variant} ({count} {'run' if count == 1 else 'runs'})" for variant, count in results.early.items()
    )
    return (
        f"Left out, because runs of theirs ended before the budget: {variants}. "
        "Raise their spec.stop.targetReward and spec.stop.budgetDollars, and go on with nitro experiment run."
    )
