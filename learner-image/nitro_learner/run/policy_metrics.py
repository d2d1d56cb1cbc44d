"""The Prometheus metrics of policies, and of the sharing of policies among several agents."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence

from prometheus_client import Gauge

from nitro_learner.training.round_report import PolicyReport


class PolicyMetrics:
    """Series by policy; a single-agent run has one policy. The policies of a run change when agents begin to
    share them. The series of a policy that is gone end.

    Args:
        gauge: makes a gauge of a job, from its name, its text and its further labels.
        job: values of the job's labels.
    """

    def __init__(self, gauge: Callable[..., Gauge], job: tuple[str, str]) -> None:
        self._job = job
        self._known: set[str] = set()
        self._values = {
            "reward_mean": gauge(
                "nitro_policy_episode_reward_mean",
                "Mean return of the last 20 training episodes of the agents that a policy plays",
                "policy",
            ),
            "convexity_ratio": gauge(
                "nitro_policy_convexity_ratio", "Newest convexity ratio of a policy's objective", "policy"
            ),
            "score": gauge(
                "nitro_policy_boosting_score",
                "Boosting score of a policy; only with a scaler that has one for each",
                "policy",
            ),
            "kl": gauge("nitro_policy_kl", "KL divergence of a policy's newest update, in nats", "policy"),
            "entropy": gauge("nitro_policy_entropy", "Entropy of a policy after its newest update", "policy"),
            "value_loss": gauge(
                "nitro_policy_value_loss", "Value loss of a policy's newest update", "policy"
            ),
        }
        self._agents = gauge("nitro_policy_agents", "Agents that a policy plays; of several agents", "policy")
        self._shared = gauge("nitro_sharing_state", "1 while agents share policies, otherwise 0")
        self._groups = gauge("nitro_sharing_groups", "Policies of several agents, each of a group of them")

    def measured(self, policies: Mapping[str, PolicyReport]) -> None:
        """Set the series after a round that these policies sampled and learned from."""
        for policy, own in policies.items():
            values = {
                "reward_mean": own.reward_mean,
                "convexity_ratio": own.convexity_ratio,
                "score": own.score,
                **own.stats,
            }
            for name, gauge in self._values.items():
                value = values.get(name)
                if value is not None:
                    gauge.labels(*self._job, policy).set(value)
        self.grouped({policy: own.agents for policy, own in policies.items()})

    def grouped(self, groups: Mapping[str, Sequence[str]]) -> None:
        """Set which agents each policy has from now on, and remove the series of policies that are gone."""
        for gone in self._known - groups.keys():
            for gauge in (*self._values.values(), self._agents):
                with contextlib.suppress(KeyError):  # this policy has no such series
                    gauge.remove(*self._job, gone)
        self._known = set(groups)
        if sum(map(len, groups.values())) < 2:
            return
        for policy, agents in groups.items():
            self._agents.labels(*self._job, policy).set(len(agents))
        self._groups.labels(*self._job).set(len(groups))
        self._shared.labels(*self._job).set(any(len(agents) > 1 for agents in groups.values()))
