"""Round reports for tests."""

from typing import Any

from nitro_learner.report import RoundReport


def report(number: int, **values: Any) -> RoundReport:
    """A plausible report of round `number`, with some values replaced."""
    base: dict[str, Any] = {
        "round": number,
        "env_steps": 4096 * number,
        "wall_seconds": 1.25 * number,
        "reward_mean": 20.0 * number,
        "reward_round": 21.0 * number,
        "evaluation_mean": 25.0 * number if number % 2 else None,
        "evaluation_std": 3.0 if number % 2 else None,
        "actors": 8,
        "next_actors": 12,
        "boosting_score": 0.5,
        "convexity_ratio": 1.25,
        "lambda_min": -0.02,
        "lambda_max": 0.025,
        "gradient_signal": 0.02,
        "gradient_noise": 800.0,
        "gradient_snr": 0.1,
        "lost": 0,
        "retries": 1,
        "cold_starts": 2,
        "fragment_bytes": 1000,
        "cost_learner": 0.001 * number,
        "cost_actors": 0.0005 * number,
        "cost_total": 0.0015 * number,
        "seconds_dispatch": 0.01,
        "seconds_sample": 0.5,
        "seconds_update": 0.7,
        "seconds_detect": 0.0,
        "seconds_evaluate": 0.02,
        "seconds_checkpoint": 0.0,
        "seconds_total": 1.25,
        "seconds_overhead": 0.003,
        "seconds_actor": 0.4,
        "kl": 0.01,
        "entropy": 1.2,
        "value_loss": 0.4,
        "policy_loss": -0.01,
        "explained_variance": 0.9,
        "advantage_std": 12.0,
    }
    return RoundReport(**{**base, **values})
