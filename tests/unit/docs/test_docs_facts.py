"""Facts in the documentation: columns, placeholders, requirements and lengths."""

import re
from pathlib import Path

import pytest

from docs_support import PAGES, ROOT, parse
from nitro_api.spec.pod_metadata import ANNOTATION_PREFIXES, LABEL_PREFIXES
from nitro_learner.training.round_report import COLUMNS
from nitro_operator.backends.release import KUBERNETES

OF_A_JOB = re.compile(r"info_\w+|evaluation_\w+_(mean|std)")
"""Columns that a job adds: entries of the environment's info, and named sets of evaluations."""


def columns(text: str) -> set[str]:
    """Code in the sentences and rows of tables that speak of metrics.csv, where it looks like a column."""
    parts = [part for part in re.split(r"\n\n|\n(?=\|)|(?<=[.:])\s", text) if "`metrics.csv`" in part]
    follows = re.findall(r"columns of `metrics\.csv`:\s*(.*?\.)", text, flags=re.DOTALL)
    return {name for part in [*parts, *follows] for name in re.findall(r"`([a-z]+(?:_[a-z]+)*)`", part)}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_column_of_the_metrics_that_a_page_names_exists(path: Path) -> None:
    named = columns(path.read_text(encoding="utf-8"))
    assert {name for name in named if not OF_A_JOB.fullmatch(name)} <= set(COLUMNS)


def test_columns_are_found_in_sentences_and_tables() -> None:
    assert columns("| `losst` in `metrics.csv` | fewer |\n| `other` | `x` |") == {"losst"}
    assert columns("They are columns of `metrics.csv`: `kl`,\n`entropy` and so on. `other` is not.") == {
        "kl",
        "entropy",
    }
    assert columns((ROOT / "docs" / "operations.md").read_text(encoding="utf-8")) >= {"lost"}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_command_can_be_typed_as_it_stands(path: Path) -> None:
    """A placeholder is a word in capitals: a shell takes angle brackets for redirections."""
    blocks = "\n".join(parse(path.read_text(encoding="utf-8")).blocks)
    assert re.findall(r"<[a-z][a-z -]*>", blocks) == []


def test_rllib_is_installed_in_the_versions_that_are_tested() -> None:
    lines = (ROOT / "docs" / "rllib.md").read_text(encoding="utf-8").splitlines()
    installs = [line for line in lines if "pip install" in line and "rllib]" in line]
    assert installs
    assert all("--constraint constraints.txt" in line for line in installs)


@pytest.mark.parametrize(
    "folder", ["crds", "actor-image", "learner-image", "rllib", "experiments", "operator"]
)
def test_no_message_has_the_packages_installed_from_an_index_which_has_none_of_them(folder: str) -> None:
    told = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in (ROOT / folder).rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if re.search(r"install \"?'?nitro-|^f?\"'nitro-|nitro-(learner|actor)\[", line.strip())
    ]
    assert told == []


def test_the_page_has_all_labels_and_annotations_that_pods_may_have() -> None:
    text = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    for field, listed in (("annotations", ANNOTATION_PREFIXES), ("labels", LABEL_PREFIXES)):
        (row,) = re.findall(rf"^\| {field} \| (.*) \|$", text, re.MULTILINE)
        assert [code for code in re.findall(r"`([^`]+)`", row) if code != "team"] == list(listed)


def test_the_findings_are_one_short_page() -> None:
    assert len((ROOT / "docs" / "results.md").read_text(encoding="utf-8").split()) < 2500


def test_prices_are_cited_from_where_the_paper_has_them() -> None:
    cited = (ROOT / "crds" / "nitro_api" / "costs" / "prices.py").read_text(encoding="utf-8").split('"""')[1]
    assert "footnotes 2 and 3" in cited
    assert "equation" not in cited.lower()


def test_the_versions_are_those_that_the_operator_and_kind_have() -> None:
    rows = re.findall(
        r"Knative Serving ([0-9.]+)(?: or newer)? [|] ([0-9.]+) or newer",
        (ROOT / "charts" / "nitro" / "README.md").read_text(encoding="utf-8"),
    )
    known = [(f"{a}.{b}", f"{c}.{d}") for (a, b), (c, d) in KUBERNETES]
    assert rows == known
    kind = (ROOT / "kind-config.yaml").read_text(encoding="utf-8")
    knative = re.search(r"KNATIVE:=v([0-9]+[.][0-9]+)", (ROOT / "scripts" / "common.sh").read_text())
    assert knative is not None
    node = re.search(r"image: kindest/node:v([0-9]+)[.]([0-9]+)[.]", kind)
    assert node is not None
    version = (int(node[1]), int(node[2]))
    major, minor = knative[1].split(".")
    assert version >= next(least for release, least in KUBERNETES if (int(major), int(minor)) >= release)
    chart = (ROOT / "charts" / "nitro" / "README.md").read_text(encoding="utf-8")
    said = rf"another pair: Kubernetes {node[1]}[.]{node[2]}, .{{,60}} with Knative Serving {knative[1]}"
    assert re.search(said, " ".join(chart.split())), "the page names the pair of make kind"
