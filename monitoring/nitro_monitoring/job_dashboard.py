"""The dashboard of one job: each row is a question that its owner asks.

What the operator exports (nitro_job_status_*) stays when the learner's pod goes and is preferred; where there
is no operator, as with `nitro train --metrics-port`, the learner's own metric takes its place. Everything is
aggregated, so that a learner's pod that was replaced does not show twice.
"""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as builders

from nitro_monitoring.panels import (
    GREEN,
    RED,
    WIDTH,
    WINDOW,
    YELLOW,
    Query,
    band,
    board,
    choice,
    dashed,
    firing,
    graph,
    number,
    row,
    window,
    word,
)

UID = "nitro-job"
_SELECTOR = 'namespace="$namespace",job_name="$job"'
_JOB = f"{{{_SELECTOR}}}"
_ANY_JOB = '{__name__=~"nitro_job_info|nitro_round"}'


def job_dashboard() -> builders.Dashboard:
    """Built for a single job of a single namespace."""
    found = board("Nitro / Job", UID, "One training job: progress, learning, actors, time and money.")
    found.with_variable(
        choice("namespace", "Namespace", f"label_values({_ANY_JOB}, namespace)", several=False)
    )
    jobs = _ANY_JOB.replace("}", ',namespace="$namespace"}')
    found.with_variable(choice("job", "Job", f"label_values({jobs}, job_name)", several=False))
    found.with_variable(window())
    found.annotation(firing(f'ALERTS{{alertname=~"Nitro.*",alertstate="firing",{_SELECTOR}}}'))
    for part in (_progress, _learning, _score, _actors, _time, _cost, _trouble):
        part(found)
    return found


def _progress(found: builders.Dashboard) -> None:
    found.with_row(row("Is it running, and how far is it?"))
    found.with_panel(
        word(
            "Phase",
            "status.phase; `kubectl describe ntj` says why it is so.",
            Query(f"max by (phase) (nitro_job_status_phase{_JOB})", "{{phase}}"),
        )
    )
    found.with_panel(
        number(
            "Rounds",
            "Finished rounds, and spec.stop.rounds where the job has it.",
            "none",
            Query(_either("round"), "done"),
            Query(f"max(nitro_job_spec_rounds{_JOB})", "of"),
        )
    )
    found.with_panel(
        number(
            "Since the last report",
            "Age of the learner's last report, by its own clock; it reports every few seconds. After a "
            "minute the operator lets the actors go.",
            "s",
            Query(f"time() - max(nitro_job_status_heartbeat_timestamp_seconds{_JOB})", "age"),
            steps=((None, GREEN), (20, YELLOW), (60, RED)),
        )
    )
    found.with_panel(
        number(
            "Steps per second",
            "Environment steps trained on, per second of wall time.",
            "none",
            Query(f"sum(rate(nitro_env_steps_total{_JOB}{WINDOW}))", "steps/s"),
        )
    )
    found.with_panel(
        number("Cost so far", "Learner and actors, over all restarts.", "currencyUSD", Query(_COST, "cost"))
    )
    found.with_panel(
        number(
            "Budget spent",
            "Of spec.stop.budgetDollars; empty where the job has none.",
            "percentunit",
            Query(f"{_COST} / max(nitro_job_spec_budget_dollars{_JOB})", "spent"),
            steps=((None, GREEN), (0.75, YELLOW), (0.9, RED)),
        )
    )


def _learning(found: builders.Dashboard) -> None:
    found.with_row(row("Does it learn?"))
    training, evaluation = "nitro_episode_reward", "nitro_evaluation_reward"
    returns = band(
        graph(
            "Return of training episodes",
            "Undiscounted return of the last 20 training episodes: mean, and a band of one standard "
            "deviation. Dashed: spec.stop.targetReward, where the job has one.",
            "none",
            Query(f"max({training}_mean{_JOB})", "mean of 20 episodes"),
            Query(f"max({training}_mean{_JOB}) - max({training}_std{_JOB})", "lower"),
            Query(f"max({training}_mean{_JOB}) + max({training}_std{_JOB})", "upper"),
            Query(f"max(nitro_job_spec_target_reward{_JOB})", "target"),
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
                Query(f"max({evaluation}_mean{_JOB})", "mean of the evaluation"),
                Query(f"max({evaluation}_mean{_JOB}) - max({evaluation}_std{_JOB})", "lower"),
                Query(f"max({evaluation}_mean{_JOB}) + max({evaluation}_std{_JOB})", "upper"),
                least=None,
            ),
            "lower",
            "upper",
        )
    )


def _score(found: builders.Dashboard) -> None:
    found.with_row(row("What does the detector say?"))
    found.with_panel(
        graph(
            "Boosting score S",
            "1 = this round's gradient is worth the most actors, 0 = the fewest. It moves from round to "
            "round and sinks as decay^round; one that stands still means a dead detector.",
            "none",
            Query(f"max(nitro_boosting_score{_JOB})", "S"),
            width=WIDTH // 3,
        )
    )
    found.with_panel(
        graph(
            "Convexity ratio R",
            "-λmax / λmin of the policy objective's Hessian, from which the score is made.",
            "none",
            Query(f"max(nitro_convexity_ratio{_JOB})", "R"),
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
            Query(
                f"sum(rate({seconds}_sum{_JOB}{WINDOW})) / sum(rate({seconds}_count{_JOB}{WINDOW}))", "mean"
            ),
            Query(f"sum(increase(nitro_detector_failures_total{_JOB}{WINDOW}))", "failures"),
            width=WIDTH // 3,
        )
    )


def _actors(found: builders.Dashboard) -> None:
    found.with_row(row("Does it get its actors?"))
    found.with_panel(
        graph(
            "Actors requested, granted, ready",
            "What the learner asks for, what the operator allows within the platform's limit (the larger of "
            "the last two requests), and the actors that are ready. Ready below granted: nodes are full or "
            "pods fail. Granted below requested: the platform is full, rounds sample in waves.",
            "none",
            *(Query(f"max(nitro_job_status_actors_{name}{_JOB})", name) for name in _HELD),
        )
    )
    found.with_panel(
        graph(
            "Slots of the round",
            "Running: slots that sample now. Of the newest finished round: succeeded; failed, which are "
            "tries that had to be repeated; lost, which are slots that were given up at the deadline.",
            "none",
            Query(f"max by (state) (nitro_round_actors{_JOB})", "{{state}}"),
        )
    )


def _time(found: builders.Dashboard) -> None:
    found.with_row(row("Where does a round's time go?"))
    seconds = "nitro_round_duration_seconds"
    stages, total = f'{{{_SELECTOR},stage!="total"}}', f'{{{_SELECTOR},stage="total"}}'
    rounds = f"sum(rate({seconds}_count{total}{WINDOW}))"
    found.with_panel(
        graph(
            "Stages of a round",
            "Mean seconds that a round waited for each stage. Sample is the actors' work; dispatch much "
            "above zero means that requests wait for actors.",
            "s",
            Query(
                f"sum by (stage) (rate({seconds}_sum{stages}{WINDOW})) / on () group_left () {rounds}",
                "{{stage}}",
            ),
            stacked=True,
        )
    )
    found.with_panel(
        graph(
            "Wall time of a round",
            "Half of the rounds take less than the median, nineteen of twenty less than p95.",
            "s",
            Query(f"histogram_quantile(0.5, sum by (le) (rate({seconds}_bucket{total}{WINDOW})))", "median"),
            Query(f"histogram_quantile(0.95, sum by (le) (rate({seconds}_bucket{total}{WINDOW})))", "p95"),
        )
    )


def _cost(found: builders.Dashboard) -> None:
    found.with_row(row("What does it cost?"))
    found.with_panel(
        graph(
            "Cumulative cost by component",
            "Dollars since the job began. Actors are billed by their pods' lifetime on Knative, by "
            "invocation on Lambda.",
            "currencyUSD",
            Query(_COMPONENTS, "{{component}}"),
            width=WIDTH // 3,
            stacked=True,
        )
    )
    found.with_panel(
        graph(
            "Cost per hour",
            "What the job spends now, by component.",
            "currencyUSD",
            Query(
                f"3600 * (max by (component) (rate(nitro_job_status_cost_dollars_total{_JOB}{WINDOW}))"
                f" or max by (component) (rate(nitro_job_cost_dollars_total{_JOB}{WINDOW})))",
                "{{component}}",
            ),
            width=WIDTH // 3,
            stacked=True,
        )
    )
    found.with_panel(
        graph(
            "Cost per 1,000 points of return",
            "Dollars spent so far for each 1,000 points of the training return: falls while learning outruns "
            "spending. Empty while the return is not above zero.",
            "currencyUSD",
            Query(f"1000 * {_COST} / ({_either('reward_mean', 'episode_reward_mean')} > 0)", "$ / 1,000"),
            width=WIDTH // 3,
        )
    )


def _trouble(found: builders.Dashboard) -> None:
    found.with_row(row("What goes wrong on the way?"))
    third = WIDTH // 3
    found.with_panel(
        graph(
            "Cold starts",
            "Share of slots that met a freshly started actor. High in the first rounds and after a jump of "
            "the score.",
            "percentunit",
            Query(_per_slot("sum", "nitro_actor_cold_starts_total"), "cold starts per slot"),
            width=third,
        )
    )
    found.with_panel(
        graph(
            "Retries",
            "Tries that had to be repeated, per slot, by reason. Above one half it is a storm.",
            "none",
            Query(_per_slot("sum by (reason)", "nitro_actor_retries_total"), "{{reason}}"),
            width=third,
            steps=((None, GREEN), (0.5, RED)),
            stacked=True,
        )
    )
    found.with_panel(
        graph(
            "Deadline misses, lost and dropped",
            "Slots that were not there at their round's deadline, and fragments that came but were refused, "
            "by reason.",
            "none",
            Query(f"sum(increase(nitro_round_deadline_misses_total{_JOB}{WINDOW}))", "deadline misses"),
            Query(
                f"sum by (reason) (increase(nitro_fragments_dropped_total{_JOB}{WINDOW}))",
                "dropped: {{reason}}",
            ),
            width=third,
        )
    )
    found.with_panel(
        graph(
            "Staleness",
            "Policy versions by which the newest round's fragments lag behind. 0 with on-policy algorithms.",
            "none",
            Query(f"max(nitro_fragment_staleness_versions{_JOB})", "versions"),
            width=third,
        )
    )
    found.with_panel(
        graph(
            "Fragment bytes per round",
            "Size of what the actors sent, as stored in the cache.",
            "bytes",
            Query(
                f"sum(rate(nitro_fragment_bytes_total{_JOB}{WINDOW}))"
                f' / sum(rate(nitro_round_duration_seconds_count{{{_SELECTOR},stage="total"}}{WINDOW}))',
                "bytes per round",
            ),
            width=third,
        )
    )
    found.with_panel(
        graph(
            "Memory of the trajectory cache",
            "What Redis uses, while a round is being sampled, and its limit. A full cache refuses fragments.",
            "bytes",
            Query(f"max(nitro_redis_memory_bytes{_JOB})", "used"),
            Query(f"max(nitro_redis_memory_limit_bytes{_JOB}) > 0", "limit"),
            width=third,
        )
    )


def _either(status: str, learner: str | None = None) -> str:
    """One number of the job, from the operator or else from the learner."""
    return f"(max(nitro_job_status_{status}{_JOB}) or max(nitro_{learner or status}{_JOB}))"


def _per_slot(aggregate: str, counter: str) -> str:
    slots = f"sum(rate(nitro_actor_slots_total{_JOB}{WINDOW}))"
    return f"{aggregate} (rate({counter}{_JOB}{WINDOW})) / on () group_left () {slots}"


_HELD = ("requested", "granted", "ready")
_COMPONENTS = (
    f"(max by (component) (nitro_job_status_cost_dollars_total{_JOB})"
    f" or max by (component) (nitro_job_cost_dollars_total{_JOB}))"
)
_COST = f"sum({_COMPONENTS})"
