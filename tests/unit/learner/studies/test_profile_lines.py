"""What `nitro profile` prints for people."""

from nitro_learner.cli.profile import shown


def test_small_prices_are_not_rounded_to_zero() -> None:
    """CartPole's pod costs less than a hundred-millionth of a dollar for 1,000 steps."""
    setting = {
        "memoryMiB": 1769,
        "cores": 1.0,
        "rolloutSeconds": 0.009,
        "dollarsPer1000Steps": 9.02e-7,
        "fits": True,
    }
    lines = shown(
        {
            "environment": "CartPole-v1",
            "steps": 512,
            "rollouts": 118,
            "peakMiB": 46.0,
            "rolloutSeconds": 0.018,
            "stepsPerCoreSecond": 58656.0,
            "lambda": {"memoryMiB": 1769, "settings": [setting]},
            "knative": {
                "requests": {"cpu": "1", "memory": "96Mi"},
                "perPod": 1,
                "dollarsPer1000Steps": 6.66e-9,
            },
        }
    ).splitlines()
    assert "       1,769    1.00      0.009           9.02e-07  recommended" in "\n".join(lines)
    assert lines[-1].strip() == "$6.66e-09 per 1,000 steps while a pod is busy"
