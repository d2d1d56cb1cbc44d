"""A plan for people: its table, and advice of two sentences."""

from collections.abc import Mapping, Sequence

from nitro_learner.studies.planning.plan import Backend, Plan, PlanChoice
from nitro_learner.studies.planning.runs import Reached, chance

NAMES: Mapping[Backend, str] = {
    "local": "this machine",
    "knative": "Knative",
    "lambda": "Lambda",
    "pool": "fixed pool",
}
_FLAT, _GAIN = 0.1, 1.2
"""A share of sampling in a round, and a gain in steps a second, below which more actors hardly help."""


def table(plan: Plan) -> str:
    """A line for each number of actors and backend."""
    lines = ["actors  backend       steps/s  s/round  actor works  rounds    env steps      time        $"]
    for one in plan.choices:
        best = {"cheapest": plan.cheapest, "quickest": plan.quickest}
        marks = ", ".join(word for word, marked in best.items() if one == marked)
        lines.append(
            f"{one.actors:>6}  {NAMES[one.backend]:<12}{one.steps_per_second:>9,.0f}{one.round_seconds:>9.3g}"
            f"{one.work:>13.0%}{one.rounds:>8,}{one.env_steps:>13,}{clock(one.seconds):>10}"
            f"{one.dollars:>9.4f}  {marks}".rstrip()
        )
    return "\n".join(lines)


def notes(plan: Plan) -> str:
    """How sure the table is, and what it leaves out."""
    low, high = plan.times.low, plan.times.high
    lines = [
        "cheapest, quickest: for a step of the environment, start and end included; the fixed pool is for "
        "comparison.",
        f"Times and dollars may be {low:.2f} to {high:.2f} times these: between that lay four fifths of the "
        "measured rounds.",
    ]
    if plan.target is not None:
        lines.append(_reached(plan.target, plan.reached))
    if plan.ends_sooner:
        fields = " or ".join(f"spec.stop.{field}" for field in plan.ends_sooner)
        lines.append(f"{fields} may end the run sooner.")
    return "\n".join(lines)


def _reached(target: float, runs: Sequence[Reached]) -> str:
    """When runs reached a return, as the interval of their seeds."""
    did = [one for one in runs if one.reached]
    told = f"Return {target:g}: {len(did)} of {len(runs)} runs reached it in an evaluation"
    if did:
        numbers = [
            (f"{one.env_steps:,} steps", clock(one.seconds), f"${one.dollars:.4f}")
            for one in (min(did, key=_steps), max(did, key=_steps))
        ]
        told += ", after " + " to ".join(", ".join(part) for part in numbers[: len(did)])
    missed = [one for one in runs if not one.reached]
    if missed:
        best = [f"{one.best:.4g}" if one.best is not None else "no evaluation" for one in missed]
        steps = ", ".join(f"{one.env_steps:,}" for one in missed)
        told += f"; the others had not after {steps} steps (best: {', '.join(best)})"
    elif len(runs) > 1:
        told += f". With a probability of {chance(len(runs)):.0%} the median of all seeds lies between"
    return f"{told}."


def _steps(one: Reached) -> int:
    return one.env_steps


def advice(plan: Plan) -> str:
    """Two sentences: whether more actors help, and what serverless ones save."""
    return f"{_more_actors(plan)} {_saving(plan)}"


def _more_actors(plan: Plan) -> str:
    own = plan.of("knative")
    share = min(1.0, own.sampling_seconds / own.round_seconds)
    where = f"With {_actors(own)} of their own cores, sampling takes {share:.0%} of a round"
    most = plan.of("knative", max(one.actors for one in plan.choices))
    gain = most.steps_per_second / own.steps_per_second
    if plan.times.detector > own.sampling_seconds:
        where += f" and the scaler's measurement {plan.times.detector / own.round_seconds:.0%}"
    if most.actors == own.actors:
        return f"{where}."
    if share < _FLAT and gain < _GAIN:
        return f"{where}: more actors hardly help, because learning is what takes long."
    return f"{where}, and {_actors(most)} bring {gain:.1f} times the steps a second."


def _saving(plan: Plan) -> str:
    own, pool = plan.of("knative"), plan.of("pool")
    idle = 1 - pool.work
    name, best = min((("Knative", own), ("Lambda", plan.of("lambda"))), key=lambda pair: pair[1].dollars)
    fixed = f"A fixed pool of {_actors(pool)} would be idle for {idle:.0%} of a round"
    if pool.dollars <= best.dollars:
        return f"{fixed}, and still costs no more than Knative or Lambda."
    saved = 1 - best.dollars / pool.dollars
    return f"{fixed}: {name} costs {saved:.0%} less."


def _actors(one: PlanChoice) -> str:
    return f"{one.actors} actor{'s' * (one.actors > 1)}"


def clock(seconds: float) -> str:
    """0:07, 1:05 or 2:03:04."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
