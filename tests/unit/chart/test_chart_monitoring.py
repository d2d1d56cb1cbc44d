"""What the chart ships for Prometheus and Grafana: rules, plain configuration, dashboards."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.registry import Collector

from chart_support import CHART, Document, find_helm
from nitro_monitoring import exposition
from prometheus_support import promtool
from scrape_support import with_files

RULES = CHART / "files" / "nitro.rules.yaml"
EVERYTHING = CHART / "ci" / "everything-values.yaml"


def render(*values: Path, **options: Any) -> list[Document]:
    return find_helm().render(*values, **options)


def named(documents: list[Document], kind: str, ending: str) -> Document:
    (found,) = [d for d in documents if d["kind"] == kind and d["metadata"]["name"].endswith(ending)]
    return found


def scraping(documents: list[Document]) -> dict[str, str]:
    data: dict[str, str] = named(documents, "ConfigMap", "-prometheus")["data"]
    return data


def test_the_rule_and_the_plain_file_are_one() -> None:
    documents = render(EVERYTHING)
    rule = named(documents, "PrometheusRule", "training")
    plain = yaml.safe_load(scraping(documents)["nitro.rules.yaml"])
    assert rule["spec"] == plain
    assert rule["metadata"]["labels"]["release"] == "prometheus"
    source = RULES.read_text().replace("docs/operations.md#", "https://docs.example.com/nitro/operations#")
    assert plain == yaml.safe_load(source)


def test_prometheus_accepts_the_plain_configuration(tmp_path: Path) -> None:
    data = scraping(render(EVERYTHING))
    for name, text in data.items():
        (tmp_path / name).write_text(text)
    promtool("check", "rules", tmp_path / "nitro.rules.yaml")
    config = with_files(yaml.safe_load(data["nitro.scrape.yaml"]), tmp_path)
    config["rule_files"] = ["nitro.rules.yaml"]
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(config))
    promtool("check", "config", tmp_path / "prometheus.yml")


def test_the_plain_configuration_equals_the_monitors() -> None:
    documents = render(EVERYTHING)
    operator, learners = yaml.safe_load(scraping(documents)["nitro.scrape.yaml"])["scrape_configs"]
    service = named(documents, "ServiceMonitor", "-operator")["spec"]
    pods = named(documents, "PodMonitor", "-learners")["spec"]
    for config, monitor, endpoint, honoured in (
        (operator, service, service["endpoints"][0], True),
        (learners, pods, pods["podMetricsEndpoints"][0], False),
    ):
        assert config["scrape_interval"] == endpoint["interval"]
        assert config["honor_labels"] is endpoint["honorLabels"] is honoured
        for field in ("honor_timestamps", "follow_redirects"):
            assert config.get(field) is endpoint.get(camel(field))
        for field in ("sample_limit", "label_limit", "body_size_limit"):
            assert config.get(field) == monitor.get(camel(field))
        rules = [
            {camel(name): value for name, value in rule.items()}
            for rule in config.get("metric_relabel_configs", [])
        ]
        assert rules == endpoint.get("metricRelabelings", [])
        (discovery,) = config["kubernetes_sd_configs"]
        (selector,) = discovery["selectors"]
        labels = dict(pair.split("=") for pair in selector["label"].split(","))
        assert labels == monitor["selector"]["matchLabels"]
        kept = [rule["regex"] for rule in config["relabel_configs"] if rule.get("action") == "keep"]
        assert kept == [endpoint["port"]]


def test_a_learner_can_neither_flood_prometheus_nor_send_it_elsewhere() -> None:
    """A tenant chooses the image of the learner."""
    _, learners = yaml.safe_load(scraping(render(EVERYTHING))["nitro.scrape.yaml"])["scrape_configs"]
    samples = sum(len(family.samples) for family in exposition.learner().collect())
    assert samples * 5 < learners["sample_limit"] < samples * 100
    assert learners["label_limit"] >= 30
    assert learners["body_size_limit"] == "10MB"
    assert learners["follow_redirects"] is learners["honor_timestamps"] is False


def camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


def test_series_of_the_operator_are_dropped_from_learners_and_no_others() -> None:
    _, learners = yaml.safe_load(scraping(render(EVERYTHING))["nitro.scrape.yaml"])["scrape_configs"]
    (dropped,) = [rule["regex"] for rule in learners["metric_relabel_configs"] if rule["action"] == "drop"]

    def names(collector: Collector) -> set[str]:
        """Of the series, without those that only OpenMetrics has."""
        return {
            sample.name
            for family in collector.collect()
            for sample in family.samples
            if not sample.name.endswith("_created")
        }

    with exposition.operator() as operator:
        of_operator = names(operator)
    assert len(of_operator) > 30
    assert not [name for name in of_operator if not re.fullmatch(dropped, name)]
    assert not [name for name in names(exposition.learner()) if re.fullmatch(dropped, name)]


def test_only_named_namespaces_are_scraped() -> None:
    on = ["metrics.scrapeConfig.enabled=true"]
    data = scraping(render(CHART / "ci" / "namespaced-values.yaml", set=on))
    operator, learners = yaml.safe_load(data["nitro.scrape.yaml"])["scrape_configs"]
    assert operator["kubernetes_sd_configs"][0]["namespaces"]["names"] == ["nitro-system"]
    assert learners["kubernetes_sd_configs"][0]["namespaces"]["names"] == ["team-a", "team-b"]
    wide = scraping(render(set=on))
    assert "namespaces" not in yaml.safe_load(wide["nitro.scrape.yaml"])["scrape_configs"][1]


def test_dashboards_are_config_maps_for_grafanas_sidecar() -> None:
    documents = render(EVERYTHING)
    for name in ("platform", "job"):
        found = named(documents, "ConfigMap", f"-dashboard-{name}")
        assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
        assert found["metadata"]["annotations"] == {"grafana_folder": "Nitro"}
        source = CHART / "files" / "dashboards" / f"nitro-{name}.json"
        assert json.loads(found["data"][source.name]) == json.loads(source.read_text())


@pytest.mark.parametrize(
    ("setting", "left"),
    [
        ("metrics.dashboards.enabled=false", 0),
        ("metrics.scrapeConfig.enabled=true", 3),
        ("crds.install=true", 2),
    ],
)
def test_config_maps_can_be_turned_off_and_on(setting: str, left: int) -> None:
    documents = render(set=[setting])
    assert len([d for d in documents if d["kind"] == "ConfigMap"]) == left
