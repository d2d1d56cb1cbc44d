"""The metrics as Prometheus' own tools see them, and docs/metrics.md."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from prometheus_client import generate_latest
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from nitro_monitoring import exposition, files
from prometheus_support import promtool

ROOT = Path(__file__).parents[3]
BASE_UNITS = ("seconds", "bytes", "dollars")
OTHER_UNITS = re.compile(r"(milli|micro|nano)?(minutes|hours|days|millis|ms|kb|mb|mib|gb|cents|percent)(_|$)")


@contextmanager
def learner() -> Iterator[Collector]:
    yield exposition.learner()


@contextmanager
def serving() -> Iterator[Collector]:
    yield exposition.serving()


ALL = pytest.mark.parametrize("exposed", [learner, exposition.operator, serving])
Exposed = Callable[[], "contextmanager[Collector]"]


@ALL
def test_promtool_finds_nothing_wrong(exposed: Exposed) -> None:
    with exposed() as collector:
        assert promtool("check", "metrics", stdin=generate_latest(collector).decode()) == ""


@ALL
def test_openmetrics_can_be_read_back(exposed: Exposed) -> None:
    with exposed() as collector:
        expected = {family.name: family.type for family in collector.collect()}
        text = openmetrics.generate_latest(collector).decode()
    found = {family.name: family.type for family in text_string_to_metric_families(text)}
    assert found == expected
    assert len(found) > (2 if exposed is serving else 20)


@ALL
def test_names_follow_the_conventions(exposed: Exposed) -> None:
    with exposed() as collector:
        for family in collector.collect():
            assert re.fullmatch(r"nitro_[a-z0-9_]+", family.name)
            assert not OTHER_UNITS.search(family.name), "base units: seconds, bytes, dollars"
            assert not family.name.endswith("_total"), "the client adds it to counters, and to nothing else"
            assert family.documentation
            if family.type == "histogram":
                assert family.name.endswith(BASE_UNITS)


def test_no_name_has_two_exporters() -> None:
    with exposition.operator() as operator:
        names = {family.name for family in operator.collect()}
    others = [
        {family.name for family in collector.collect()}
        for collector in (exposition.learner(), exposition.serving())
    ]
    assert not names & others[0]
    assert not others[1] & (names | others[0])


def test_every_series_of_a_job_has_its_two_labels() -> None:
    with exposition.operator() as operator:
        for collector in (operator, exposition.learner()):
            for family in collector.collect():
                for sample in family.samples:
                    of_job = not sample.name.startswith(("nitro_jobs", "nitro_operator_"))
                    assert ({"namespace", "job_name"} <= set(sample.labels)) == of_job, sample.name
                    assert not {"pod", "actor", "instance", "slot", "round", "run"} & set(sample.labels)


@pytest.mark.parametrize("name", sorted(files.generated()))
def test_generated_files_are_current(name: str) -> None:
    assert (ROOT / name).read_text() == files.generated()[name], "run `make generate`"
