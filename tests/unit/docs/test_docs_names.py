"""docs/algorithms.md names every algorithm and each of its settings, and only fields that exist."""

from __future__ import annotations

import re

from docs_support import ROOT
from nitro_api.algorithms.registry import RECORDS, settings_of
from nitro_api.schema.openapi import fields

PAGE = (ROOT / "docs" / "algorithms.md").read_text(encoding="utf-8")


def first_cells(heading: str) -> list[str]:
    """The code in the first column of the table whose first heading this is."""
    (table,) = re.findall(rf"^\| {re.escape(heading)} \|.*\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    return [name for row in table.splitlines()[1:] for name in re.findall(r"`([^`]+)`", row.split("|")[1])]


def test_every_algorithm_is_in_the_table_that_helps_to_choose() -> None:
    assert sorted(first_cells("`algorithm.name`")) == sorted(RECORDS)


def test_every_setting_has_a_row_with_the_names_of_other_libraries() -> None:
    named = first_cells("`hyperparameters`")
    assert sorted(named) == sorted({name for record in RECORDS.values() for name in settings_of(record)})


def test_the_other_fields_of_that_list_exist() -> None:
    known = {path.replace("[]", "").removeprefix("spec.") for path, _ in fields()}
    assert [name for name in first_cells("field of the job") if name not in known] == []


def test_what_is_not_built_in_is_answered() -> None:
    assert re.search(r"^\| DQN for images.*`ppo`.*`dqn`.*`iql`", PAGE, re.MULTILINE)
