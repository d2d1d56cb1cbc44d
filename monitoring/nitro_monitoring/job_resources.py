"""The rows of a job's dashboard about actors, time, money and trouble."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as builders

from nitro_monitoring.job_queries import COMPONENTS, COST, JOB, PAID_CPU, SELECTOR, either, per_slot
from nitro_monitoring.panels import GREEN, RED, WIDTH, WINDOW, Query, above, graph, row


def actors(found: builders.Dashboard) -> None:
    """What is asked for, granted and ready, and how slots end."""
    found.with_row(row("Does it get its actors?"))
    found.with_panel(
        graph(
            "Actors requested, granted, ready",
            "What the learner asks for, what the operator allows within the platform's limit (the larger of "
            "the last two requests), and the actors that are ready. Ready below granted: nodes are full or "
            "pods fail. Granted below requested: the platform is full, rounds sample in waves. Provisioned: "
            "what Lambda keeps ready and bills, where a job asks for it.",
            "none",
            *(
                Query(f"max(nitro_job_status_actors_{name}{JOB})", name)
                for name in ("requested", "granted", "ready", "provisioned")
            ),
            width=WIDTH // 3,
            whole=True,
        )
    )
    states = graph(
        "Pods beside the phases",
        "Actors that are awake and asleep, the pods that start and drain (in actors, too), and the line of "
        "what the learner uses now: high while a round is sampled, low while it learns. Awake above the "
        "line: actors are held although nobody needs them. Below it: they wake, or a node has no room for "
        "them (deferred).",
        "none",
        *(Query(f"max(nitro_job_status_actors_{name}{JOB})", name) for name in ("awake", "asleep")),
        *(
            Query(f"max(nitro_job_status_actors_{name}{JOB}) * max(nitro_job_spec_actors_per_pod{JOB})", name)
            for name in ("starting", "draining")
        ),
        Query(f"max(nitro_job_status_actors_needed{JOB})", "needed now"),
        Query(f"max(nitro_job_status_actors_deferred{JOB})", "deferred"),
        width=WIDTH // 3,
        stacked=True,
    )
    found.with_panel(above(above(states, "needed now"), "deferred"))
    found.with_panel(
        graph(
            "Slots of the round",
            "Running: slots that sample now. Of the newest finished round: succeeded; failed, which are "
            "tries that had to be repeated; lost, which are slots that were given up at the deadline.",
            "none",
            Query(f"max by (state) (nitro_round_actors{JOB})", "{{state}}"),
            width=WIDTH // 3,
            whole=True,
        )
    )


def time(found: builders.Dashboard) -> None:
    """Where a round's wall time goes."""
    found.with_row(row("Where does a round's time go?"))
    seconds = "nitro_round_duration_seconds"
    stages, total = f'{{{SELECTOR},stage!="total"}}', f'{{{SELECTOR},stage="total"}}'
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


def cost(found: builders.Dashboard) -> None:
    """The costs by component, how fast they grow, and the return that they bought."""
    found.with_row(row("What does it cost?"))
    found.with_panel(
        graph(
            "Cumulative cost by component",
            "Dollars since the job began. Actors are billed by their pods' lifetime on Knative, by "
            "invocation on Lambda.",
            "currencyUSD",
            Query(COMPONENTS, "{{component}}"),
            width=WIDTH // 4,
            stacked=True,
        )
    )
    found.with_panel(
        graph(
            "Cost per hour",
            "What the job spends now, by component.",
            "currencyUSD",
            Query(
                f"3600 * (sum by (component) (rate(nitro_job_status_cost_dollars_total{JOB}{WINDOW}))"
                f" or sum by (component) (rate(nitro_job_cost_dollars_total{JOB}{WINDOW})))",
                "{{component}}",
            ),
            width=WIDTH // 4,
            stacked=True,
        )
    )
    found.with_panel(
        graph(
            "Cost per 1,000 points of return",
            "Dollars spent so far for each 1,000 points of the training return: falls while learning outruns "
            "spending. Empty while the return is not above zero.",
            "currencyUSD",
            Query(f"1000 * {COST} / ({either('reward_mean', 'episode_reward_mean')} > 0)", "$ / 1,000"),
            width=WIDTH // 4,
        )
    )
    found.with_panel(
        graph(
            "Invocations",
            "Invocations per second that are billed, and those among them whose time is an estimate because "
            "the answer was lost. Many of those make the cost uncertain.",
            "ops",
            Query(f"sum(rate(nitro_actor_invocations_total{JOB}{WINDOW}))", "billed"),
            Query(f"sum(rate(nitro_actor_invocations_estimated_total{JOB}{WINDOW}))", "estimated"),
            width=WIDTH // 4,
        )
    )


def trouble(found: builders.Dashboard) -> None:
    """Cold starts, retries, lost slots, staleness, sizes, memory and trackers."""
    found.with_row(row("What goes wrong on the way?"))
    third, quarter = WIDTH // 3, WIDTH // 4
    found.with_panel(
        graph(
            "Actors paid and used",
            "Actors whose pods are paid, starting and draining ones included, and actors that work. The "
            "distance is what idle pods cost. Where actors sleep, 'paid CPU' counts a pod by the CPU that it "
            "requests, against that of one that is awake.",
            "none",
            Query(
                f"max(rate(nitro_job_status_pod_seconds_total{JOB}{WINDOW}))"
                f" * max(nitro_job_spec_actors_per_pod{JOB})",
                "paid",
            ),
            Query(PAID_CPU, "paid CPU"),
            Query(f"sum(rate(nitro_actor_busy_seconds_total{JOB}{WINDOW}))", "used"),
            Query(f"max(nitro_job_status_actors_draining{JOB})", "pods that are going"),
            width=third,
        )
    )
    found.with_panel(
        graph(
            "Slots with a ready actor",
            "Share of slots that found a ready actor when their round asked for it. The others wait.",
            "percentunit",
            Query(per_slot("sum", "nitro_actor_slots_ready_total"), "ready"),
            width=third,
        )
    )
    found.with_panel(
        graph(
            "Pods started",
            "Actor pods that are started, per minute. Each is paid while it starts and while it drains.",
            "none",
            Query(f"60 * max(rate(nitro_actor_pods_started_total{JOB}{WINDOW}))", "pods per minute"),
            width=third,
        )
    )
    found.with_panel(
        graph(
            "Cold starts",
            "Share of slots that met a freshly started actor. High in the first rounds and after a jump of "
            "the score.",
            "percentunit",
            Query(per_slot("sum", "nitro_actor_cold_starts_total"), "cold starts per slot"),
            width=third,
        )
    )
    found.with_panel(
        graph(
            "Retries",
            "Tries that had to be repeated, per slot, by reason. Above one half it is a storm.",
            "none",
            Query(per_slot("sum by (reason)", "nitro_actor_retries_total"), "{{reason}}"),
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
            Query(f"sum(increase(nitro_round_deadline_misses_total{JOB}{WINDOW}))", "deadline misses"),
            Query(
                f"sum by (reason) (increase(nitro_fragments_dropped_total{JOB}{WINDOW}))",
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
            Query(f"max(nitro_fragment_staleness_versions{JOB})", "versions"),
            width=quarter,
        )
    )
    found.with_panel(
        graph(
            "Fragment bytes per round",
            "Size of what the actors sent, as stored in the cache.",
            "bytes",
            Query(
                f"sum(rate(nitro_fragment_bytes_total{JOB}{WINDOW}))"
                f' / sum(rate(nitro_round_duration_seconds_count{{{SELECTOR},stage="total"}}{WINDOW}))',
                "bytes per round",
            ),
            width=quarter,
        )
    )
    found.with_panel(
        graph(
            "Memory of the trajectory cache",
            "What Redis uses, while a round is being sampled, and its limit. A full cache refuses fragments.",
            "bytes",
            Query(f"max(nitro_redis_memory_bytes{JOB})", "used"),
            Query(f"max(nitro_redis_memory_limit_bytes{JOB}) > 0", "limit"),
            width=quarter,
        )
    )
    found.with_panel(
        graph(
            "Failures of trackers",
            "Times that an experiment tracker of spec.tracking could not be written. It is tried again, and "
            "what was missed is made up for; the learner's log has the cause.",
            "none",
            Query(
                f"sum by (tracker) (increase(nitro_tracking_failures_total{JOB}{WINDOW}))",
                "{{tracker}}",
            ),
            width=quarter,
        )
    )
