"""The row of a job's dashboard about its policies: what each learns, and which agents share one."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as builders

from nitro_monitoring.job_queries import JOB
from nitro_monitoring.panels import WIDTH, WINDOW, Query, graph, row


def policies(found: builders.Dashboard) -> None:
    """Return, score and losses of each policy, and groups over time. A single agent has one policy."""
    found.with_row(row("What do its policies learn, and who shares them?"))
    third = WIDTH // 3

    def each(metric: str, legend: str = "{{policy}}") -> Query:
        return Query(f"max by (policy) (nitro_policy_{metric}{JOB})", legend)

    found.with_panel(
        graph(
            "Return by policy",
            "Mean return of the last 20 training episodes of the agents that a policy plays. A policy begins "
            "anew when agents begin to share it.",
            "none",
            each("episode_reward_mean"),
            width=third,
            least=None,
        )
    )
    found.with_panel(
        graph(
            "Boosting score by policy",
            "How much each policy calls for actors. Only with scaler marless, which scales by all of them.",
            "none",
            each("boosting_score"),
            width=third,
        )
    )
    found.with_panel(
        graph(
            "Groups of agents",
            "How many agents each policy plays, one area for each policy. A policy of several agents is a "
            "group that shares it. Empty with a single agent.",
            "none",
            each("agents"),
            width=third,
            stacked=True,
            whole=True,
        )
    )
    found.with_panel(
        graph(
            "Sharing",
            "Policies that there are; 1 while agents share them; and how often sharing began or ended in the "
            "window. Often means that the detector sees noise: raise spec.sharing.window, or lower slope.",
            "none",
            Query(f"max(nitro_sharing_groups{JOB})", "policies"),
            Query(f"max(nitro_sharing_state{JOB})", "shared"),
            Query(f"sum(increase(nitro_sharing_toggles_total{JOB}{WINDOW}))", "toggles"),
            width=third,
        )
    )
    found.with_panel(
        graph(
            "Convexity ratio by policy",
            "-λmax / λmin of each policy's objective. A group goes on with the policy that has the highest.",
            "none",
            each("convexity_ratio"),
            width=third,
            least=None,
        )
    )
    found.with_panel(
        graph(
            "Updates by policy",
            "KL divergence and value loss of each policy's newest update, and its entropy after it. Entropy "
            "near zero early means that the policy has stopped to explore.",
            "none",
            each("kl", "{{policy}} KL"),
            each("entropy", "{{policy}} entropy"),
            each("value_loss", "{{policy}} value loss"),
            width=third,
            least=None,
        )
    )
