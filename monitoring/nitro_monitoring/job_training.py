"""The rows of a job's dashboard about the training itself."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as builders

from nitro_monitoring.job_queries import COST, JOB, SELECTOR, either
from nitro_monitoring.panels import (
    GREEN,
    RED,
    WIDTH,
    WINDOW,
    YELLOW,
    Query,
    band,
    dashed,
    graph,
    number,
    row,
    word,
)

_NARROW = WIDTH // 8
"""Width of half of the numbers in the first row, which has seven."""


def progress(found: builders.Dashboard) -> None:
    """Phase, rounds, heartbeat, pace and money, as numbers."""
    found.with_row(row("Is it running, and how far is it?"))
    found.with_panel(
        word(
            "Phase",
            "status.phase; `kubectl describe ntj` says why it is so.",
            Query(f"max by (phase) (nitro_job_status_phase{JOB})", "{{phase}}"),
            width=_NARROW,
        )
    )
    found.with_panel(
        number(
            "Rounds",
            "Finished rounds, and spec.stop.rounds where the job has it.",
            "none",
            Query(either("round"), "done"),
            Query(f"max(nitro_job_spec_rounds{JOB})", "of"),
            width=_NARROW,
        )
    )
    found.with_panel(
        number(
            "Progress",
            "Done of the stop condition that ends the run; status.progress says which, and when.",
            "percentunit",
            Query(f"max(nitro_job_progress_ratio{JOB})", "done"),
            width=_NARROW,
        )
    )
    found.with_panel(
        number(
            "Since the last report",
            "Age of a running learner's last report, by its own clock; it reports every few seconds. After a "
            "minute the operator lets the actors go.",
            "s",
            Query(
                f"(time() - max(nitro_job_status_heartbeat_timestamp_seconds{JOB})) and on () "
                f'nitro_job_status_phase{{{SELECTOR},phase="Running"}} == 1',
                "age",
            ),
            width=_NARROW,
            steps=((None, GREEN), (20, YELLOW), (60, RED)),
        )
    )
    found.with_panel(
        number(
            "Steps per second",
            "Environment steps trained on, per second of wall time.",
            "none",
            Query(f"sum(rate(nitro_env_steps_total{JOB}{WINDOW}))", "steps/s"),
        )
    )
    found.with_panel(
        number("Cost so far", "Learner and actors, over all restarts.", "currencyUSD", Query(COST, "cost"))
    )
    found.with_panel(
        number(
            "Budget spent",
            "Of spec.stop.budgetDollars; empty where the job has none.",
            "percentunit",
            Query(f"{COST} / max(nitro_job_spec_budget_dollars{JOB})", "spent"),
            steps=((None, GREEN), (0.75, YELLOW), (0.9, RED)),
        )
    )


def learning(found: builders.Dashboard) -> None:
    """Return of training and evaluation, with their spread."""
    found.with_row(row("Does it learn?"))
    training, evaluation = "nitro_episode_reward", "nitro_evaluation_reward"
    returns = band(
        graph(
            "Return of training episodes",
            "Undiscounted return of the last 20 training episodes: mean, and a band of one standard "
            "deviation. Dashed: spec.stop.targetReward, where the job has one.",
            "none",
            Query(f"max({training}_mean{JOB})", "mean of 20 episodes"),
            Query(f"max({training}_mean{JOB}) - max({training}_std{JOB})", "lower"),
            Query(f"max({training}_mean{JOB}) + max({training}_std{JOB})", "upper"),
            Query(f"max(nitro_job_spec_target_reward{JOB})", "target"),
            least=None,
        ),
        "lower",
        "upper",
    )
    found.with_panel(dashed(returns, "target"))
    found.with_panel(
        band(
            graph(
                "Return of evaluations",
                "The newest evaluation, played by mean actions: mean, and a band of one standard deviation.",
                "none",
                Query(f"max({evaluation}_mean{JOB})", "mean of the evaluation"),
                Query(f"max({evaluation}_mean{JOB}) - max({evaluation}_std{JOB})", "lower"),
                Query(f"max({evaluation}_mean{JOB}) + max({evaluation}_std{JOB})", "upper"),
                least=None,
            ),
            "lower",
            "upper",
        )
    )


def score(found: builders.Dashboard) -> None:
    """Boosting score, convexity ratio, and the detector itself."""
    found.with_row(row("What does the detector say?"))
    found.with_panel(
        graph(
            "Boosting score S",
            "1 = this round's gradient is worth the most actors, 0 = the fewest. It moves from round to "
            "round and sinks as decay^round; one that does not change means a dead detector.",
            "none",
            Query(f"max(nitro_boosting_score{JOB})", "S"),
            width=WIDTH // 3,
        )
    )
    found.with_panel(
        graph(
            "Convexity ratio R",
            "-λmax / λmin of the policy objective's Hessian, from which the score is made.",
            "none",
            Query(f"max(nitro_convexity_ratio{JOB})", "R"),
            width=WIDTH // 3,
            least=None,
        )
    )
    seconds = "nitro_detector_duration_seconds"
    found.with_panel(
        graph(
            "Detector's own time",
            "Compute time per measurement. Most of it lies beside the next round's sampling and costs no "
            "wall time; failures are measurements without a ratio.",
            "s",
            Query(f"sum(rate({seconds}_sum{JOB}{WINDOW})) / sum(rate({seconds}_count{JOB}{WINDOW}))", "mean"),
            Query(f"sum(increase(nitro_detector_failures_total{JOB}{WINDOW}))", "failures"),
            width=WIDTH // 3,
        )
    )
