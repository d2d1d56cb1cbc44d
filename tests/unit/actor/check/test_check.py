"""The check of an environment names what is wrong with it, and passes what is sound."""

import io
import json
from typing import Any

import pytest

from nitro_actor.check.__main__ import check
from nitro_actor.check_process import Calls
from nitro_learner.run.checking.report import Report, read

WITHOUT_END = 60.0
"""Seconds of a check that ends by itself."""


def checked(entry_point: str, seconds: float = WITHOUT_END, **kwargs: Any) -> Report:
    settings = {"id": "x", "entryPoint": f"broken_environments:{entry_point}", "kwargs": kwargs}
    out = io.StringIO()
    check(json.dumps(settings), seconds, out, Calls(None))
    return read(out.getvalue().splitlines())


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("SeedIgnored", "reset ignores `seed`, or what it seeds is not all that is random: two plays of seed "
                        "123 with equal actions differ: after reset the observation[0] is "),
        ("SeedIgnoredInSteps", "differ: after 1 step the reward is "),
        ("LeftOverState", "set back everything that an episode changes"),
        ("FourValues", "with 4 values; gymnasium's step returns five values: observation, reward, "
                       "terminated, truncated, info"),
        ("wrapped_four_values", "gymnasium's step returns five values: observation, reward, terminated, "),
        ("Outside", "outside of its space, which goes from -10 to 10 there: correct the space's bounds, or"),
        ("OtherDtype", "the observation that reset returns has the dtype float64, but its space says float32"
                       ": return np.asarray(..., dtype=np.float32), or give the space dtype=np.float64"),
        ("AsList", "its space is a Box, so return an array: np.asarray(..., dtype=np.float32)"),
        ("NotANumber", "the observation that step returns[1] is nan: observations must be finite numbers"),
        ("RewardIsText", "the reward is 'much', of type str; gymnasium expects a float"),
        ("RewardIsNaN", "the reward is nan, of type float; gymnasium expects a finite number"),
        ("NeverEnds", "no episode ended within 30,000 steps of random actions, and no time limit is known"),
        ("SharedObservation", "step changes an observation that an earlier call returned, in place"),
        ("SharedInDict", "step changes an observation that an earlier call returned, in place"),
        ("DictOutside", "the observation that reset returns['b'][0][0] is "),
        ("ChangesAction", "step changes the action that it is given, in place: it was array([ 0"),
        ("ForgetsState", "set_state does not restore all that get_state should have saved: after "),
    ],
)  # fmt: skip
def test_a_broken_environment_has_one_fault_that_says_what_to_do(name: str, said: str) -> None:
    report = checked(name)
    (fault,) = report.faults
    assert said in fault.replace("array([-0", "array([ 0")
    assert not report.sound


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("BareObservation", "gymnasium's reset returns two values: observation, info"),
        ("ResetWithoutSeed", "write def reset(self, *, seed=None, options=None), call super().reset(seed="),
        ("NeedsDisplay", "RuntimeError: No available video device"),
    ],
)  # fmt: skip
def test_an_environment_that_cannot_be_reset_cannot_be_built(name: str, said: str) -> None:
    report = checked(name)
    assert said in report.error
    assert not report.sound


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("seed ignored", "reset ignores `seed`"),
        ("four values", "with 4 values; PettingZoo's step returns five values: observations, rewards, "),
        ("outside", "the observation of a_0 that reset returns[0] is "),
        ("other dtype", "the observation of a_0 that reset returns has the dtype float64"),
        ("NaN", "is nan: observations must be finite numbers"),
        ("reward is text", "the reward of a_0 is 'much', of type str; PettingZoo expects a float"),
        ("never ends", "no episode ended within 30,000 steps of random actions"),
        ("shared observation", "changes an observation that an earlier call returned, in place"),
        ("changes action", "step changes the action that it is given, in place"),
    ],
)
def test_the_same_faults_are_found_where_several_agents_play(how: str, said: str) -> None:
    report = checked("Pair", how=how)
    assert said in report.faults[0]


def test_a_reset_of_several_agents_returns_two_values() -> None:
    assert (
        "PettingZoo's reset returns two values: observations, infos"
        in checked("Pair", how="bare observations").error
    )


def test_tuples_of_spaces_are_looked_at_for_each_agent() -> None:
    assert checked("Trio").faults == []
    assert (
        "the observation of agent_0 that reset returns has the dtype float64"
        in checked("Trio", wrong=True).faults[0]
    )


@pytest.mark.parametrize("name", ["Sound", "Pair"])
def test_a_sound_environment_passes_and_has_its_costs(name: str) -> None:
    report = checked(name)
    assert (report.error, report.faults, report.warnings, report.unchecked) == ("", [], [], {})
    assert report.ended
    assert report.measured["step_seconds"] > 0
    assert report.measured["resumable"] is (name == "Sound")
    if name == "Sound":
        assert report.measured["state_bytes"] > 12
    assert any("episodes " in sentence for sentence in report.costs())


@pytest.mark.parametrize(
    "id_", ["CartPole-v1", "Pendulum-v1", "FrozenLake-v1", "Taxi-v4", "Blackjack-v1", "Hopper-v5",
            "Reacher-v5", "ALE/Pong-v5", "mpe2/simple_spread_v3", "mpe2/simple_reference_v3"]
)  # fmt: skip
def test_environments_of_others_pass(id_: str) -> None:
    out = io.StringIO()
    check(json.dumps({"id": id_}), WITHOUT_END, out, Calls(None))
    report = read(out.getvalue().splitlines())
    assert (report.error, report.faults) == ("", [])


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("SharedInInfo", "step changes an info that an earlier call returned, in place"),
        ("ResetWithoutOptions", "options are never given here"),
        ("OwnGenerator", "equal seeds give equal episodes all the same"),
    ],
)
def test_what_a_training_does_not_mind_is_a_warning(name: str, said: str) -> None:
    report = checked(name)
    assert report.sound
    assert any(said in warning for warning in report.warnings)


def test_remarks_on_style_do_not_fail() -> None:
    out = io.StringIO()
    check(json.dumps({"id": "CartPole-v1"}), WITHOUT_END, out, Calls(None))
    report = read(out.getvalue().splitlines())
    assert report.sound
    assert any("A Box observation space minimum value is -infinity" in remark for remark in report.remarks)


def test_what_does_not_fit_into_the_time_is_named() -> None:
    report = checked("Slow", 0.5, step=0.3)
    assert report.sound
    assert "that equal seeds give equal episodes" in report.unchecked
    assert report.unchecked["whether episodes end"].endswith(
        " steps were played, and none of them ended an episode"
    )
    assert any(sentence.startswith("not checked: whether episodes end (") for sentence in report.gaps())


def test_a_checker_that_stops_elsewhere_is_a_fault_of_its_own() -> None:
    """PettingZoo's test wants that agents leave the list when an episode is over."""
    (fault,) = checked("Pair", how="agents stay").faults
    assert fault.startswith("PettingZoo's parallel_api_test: ")
