"""SMAX where JAX is not installed, and ids of maps that do not exist."""

from typing import Any

import pytest

from nitro_actor.agents import make
from nitro_actor.config import EnvironmentConfigError
from parallel_environments import several


@pytest.mark.parametrize(
    ("id_", "kwargs", "text"),
    [
        (
            "smax/8m",
            {},
            r"needs JAX, which is not installed; use the image nitro-actor-smax, or in a checkout run pip "
            r"install '\./actor-image\[smax,smax-source\]'",
        ),
        ("smax/9m", {}, "smax/9m does not exist; set environment.id: smax/3s5z or smax/8m"),
        ("smax/8m", {"max_steps": 9}, r"takes no arguments, but has \['max_steps'\]; remove"),
    ],
)
def test_what_is_missing_is_said(
    id_: str, kwargs: dict[str, Any], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(make, "find_spec", lambda _: None)
    with pytest.raises(EnvironmentConfigError, match=text):
        several(id_, **kwargs)
