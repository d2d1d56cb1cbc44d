"""The chart, rendered: images, rights, Pod Security, monitors, and what its schema refuses."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from chart_support import CHART, KUBE_VERSION, VALUES, Document, Helm, find_helm

Render = Callable[..., list[Document]]

ROOT = CHART.parents[1]
MONITORS = [f"monitoring.coreos.com/v1/{kind}" for kind in ("ServiceMonitor", "PodMonitor", "PrometheusRule")]


@pytest.fixture(scope="session")
def helm() -> Helm:
    return find_helm()


@pytest.fixture(scope="session")
def render(helm: Helm) -> Render:
    return helm.render


def of_kind(documents: list[Document], kind: str) -> list[Document]:
    return [document for document in documents if document["kind"] == kind]


def only(documents: list[Document], kind: str) -> Document:
    (found,) = of_kind(documents, kind)
    return found


def environment(documents: list[Document]) -> dict[str, str]:
    container = only(documents, "Deployment")["spec"]["template"]["spec"]["containers"][0]
    return {entry["name"]: entry["value"] for entry in container["env"]}


@pytest.mark.parametrize("values", [None, *VALUES], ids=lambda file: file.stem if file else "defaults")
def test_lint(helm: Helm, values: Path | None) -> None:
    helm.run("lint", "--strict", str(CHART), *(["--values", str(values)] if values else []))


def test_the_crd_is_the_generated_one() -> None:
    generated = ROOT / "crds" / "nitrotrainingjobs.yaml"
    copy = CHART / "files" / "nitrotrainingjobs.yaml"
    assert copy.read_text() == generated.read_text(), "run `make generate`"


def test_the_crd_is_rendered_whole_and_outlives_the_release(render: Render) -> None:
    crd = only(render(), "CustomResourceDefinition")
    assert crd["metadata"]["annotations"].pop("helm.sh/resource-policy") == "keep"
    source = yaml.safe_load((CHART / "files" / "nitrotrainingjobs.yaml").read_text())
    crd["metadata"]["annotations"] = crd["metadata"]["annotations"] or None
    source["metadata"].setdefault("annotations", None)
    assert crd == source
    assert not of_kind(render(set=["crds.install=false"]), "CustomResourceDefinition")


def test_default_images_are_those_that_make_images_builds(render: Render) -> None:
    documents = render()
    version = yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"]
    pod = only(documents, "Deployment")["spec"]["template"]["spec"]
    assert pod["containers"][0]["image"] == f"dev.local/nitro-operator:{version}"
    assert environment(documents)["NITRO_ACTOR_IMAGE"] == f"dev.local/nitro-actor:{version}"
    assert environment(documents)["NITRO_LEARNER_IMAGE"] == f"dev.local/nitro-learner:{version}"
    assert "NITRO_LEARNER_CPU_IMAGE" not in environment(documents), "PyPI has no torch to build it with"


def test_every_image_can_be_replaced(render: Render) -> None:
    documents = render(CHART / "ci" / "private-registry-values.yaml")
    pod = only(documents, "Deployment")["spec"]["template"]["spec"]
    env = environment(documents)
    assert pod["containers"][0]["image"] == "registry.example.com/nitro/nitro-operator:1.2.3"
    assert pod["containers"][0]["imagePullPolicy"] == env["NITRO_IMAGE_PULL_POLICY"] == "Always"
    assert pod["imagePullSecrets"] == [{"name": "registry"}, {"name": "mirror"}]
    assert env["NITRO_IMAGE_PULL_SECRETS"] == "registry,mirror"
    assert env["NITRO_ACTOR_IMAGE"] == "registry.example.com/nitro/nitro-actor:1.2.3"
    assert re.fullmatch(
        r"registry.example.com/nitro/nitro-learner@sha256:[0-9a-f]{64}", env["NITRO_LEARNER_IMAGE"]
    )
    assert env["NITRO_LEARNER_CPU_IMAGE"] == "registry.example.com/nitro/nitro-learner-cpu:1.2.3"
    assert env["NITRO_REDIS_IMAGE"] == "registry.example.com/mirror/redis:7.2.5"
    rest = [d for d in documents if d["kind"] in ("Deployment", "Pod")]
    assert "dev.local" not in yaml.safe_dump_all(rest)
    assert "docker.io" not in yaml.safe_dump_all(rest)


def rules(documents: list[Document]) -> list[dict[str, Any]]:
    return [rule for d in documents if d["kind"] in ("Role", "ClusterRole") for rule in d["rules"]]


@pytest.mark.parametrize("values", [None, *VALUES], ids=lambda file: file.stem if file else "defaults")
def test_rights_name_every_group_resource_and_verb(render: Render, values: Path | None) -> None:
    for rule in rules(render(*([values] if values else []))):
        assert set(rule) <= {"apiGroups", "resources", "verbs", "resourceNames"}
        for entries in rule.values():
            assert entries
            assert not [entry for entry in entries if "*" in entry], rule
        assert not {"escalate", "bind", "impersonate"} & set(rule["verbs"])
        if "secrets" in rule["resources"]:
            assert not {"list", "watch"} & set(rule["verbs"])


def test_every_rule_of_the_operator_says_why() -> None:
    lines = (CHART / "templates" / "_rules.tpl").read_text().splitlines()
    starts = [number for number, line in enumerate(lines) if line.startswith("- apiGroups")]
    assert starts
    for number in starts:
        # A comment covers the rules that follow it without a gap.
        before = lines[number - 1]
        assert before.startswith("#") or before.lstrip().startswith("verbs:"), lines[number]


def test_named_namespaces_need_no_rights_elsewhere(render: Render) -> None:
    documents = render(CHART / "ci" / "namespaced-values.yaml")
    wide = [
        rule
        for d in of_kind(documents, "ClusterRole")
        if d["metadata"]["name"] == "nitro-operator"
        for rule in d["rules"]
    ]
    assert {resource for rule in wide for resource in rule["resources"]} == {
        "customresourcedefinitions",
        "namespaces",
    }
    roles = [d for d in of_kind(documents, "Role") if d["metadata"]["name"] == "nitro-operator"]
    assert [role["metadata"]["namespace"] for role in roles] == ["team-a", "team-b"]
    assert environment(documents)["NITRO_WATCH_NAMESPACES"] == "team-a,team-b"


def test_roles_made_by_hand_are_the_only_ones(render: Render) -> None:
    """`helm test` needs a role, too: its pod and its account are left out with it."""
    made = {d["kind"] for d in render(CHART / "ci" / "hand-made-account-values.yaml")}
    roles = {"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "ServiceAccount", "Pod"}
    assert not made & roles
    assert roles <= {d["kind"] for d in render()}


@pytest.mark.parametrize("kind", ["Deployment", "Pod"])
def test_pods_meet_the_restricted_standard(render: Render, kind: str) -> None:
    found = only(render(), kind)
    pod = found["spec"]["template"]["spec"] if kind == "Deployment" else found["spec"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["runAsUser"] > 0
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in pod["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        for bound in ("memory", "ephemeral-storage"):
            assert container["resources"]["requests"][bound]
            assert container["resources"]["limits"][bound]
        assert container["resources"]["requests"]["cpu"]
    assert all("sizeLimit" in volume["emptyDir"] for volume in pod.get("volumes", []))


@pytest.mark.parametrize(("value", "user"), [("auto", 65532), ("none", None), ("1000680000", 1000680000)])
def test_users_can_be_left_out_or_named_everywhere(render: Render, value: str, user: int | None) -> None:
    documents = render(set=[f"podSecurity.runAsUser={value}", f"podSecurity.fsGroup={value}"])
    operator = only(documents, "Deployment")["spec"]["template"]["spec"]
    for pod in (operator, only(documents, "Pod")["spec"]):
        assert pod["securityContext"].get("runAsUser") == user
        assert ("runAsGroup" in pod["securityContext"]) is (value == "auto")
        assert pod["securityContext"]["runAsNonRoot"] is True
    env = environment(documents)
    assert (env["NITRO_RUN_AS_USER"], env["NITRO_FS_GROUP"]) == (value, value)


def test_readiness_is_another_question_than_liveness(render: Render) -> None:
    (container,) = only(render(), "Deployment")["spec"]["template"]["spec"]["containers"]
    assert container["readinessProbe"]["httpGet"] != container["livenessProbe"]["httpGet"]


def test_the_operators_pod_has_a_network_policy_of_both_directions(render: Render) -> None:
    documents = render()
    policy = only(documents, "NetworkPolicy")["spec"]
    labels = only(documents, "Deployment")["spec"]["template"]["metadata"]["labels"]
    assert policy["podSelector"]["matchLabels"].items() <= labels.items()
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert all("ports" in rule for rule in (*policy["ingress"], *policy["egress"]))


@pytest.mark.parametrize(
    ("endpoints", "ports"),
    [
        ("[]", [6443, 80]),
        ('["localstack:4566"]', [6443, 80, 4566]),
        ('["localstack:4566", "other.test:4566", "other.test:80"]', [6443, 80, 4566]),
        ('["vpce.example.com", "*"]', [6443, 80, 443]),
    ],
)
def test_the_operator_reaches_the_ports_of_listed_endpoints(
    render: Render, endpoints: str, ports: list[int]
) -> None:
    values = [f"lambda.endpoints={endpoints}", "networkPolicy.apiServerPorts=[6443, 80]"]
    _, found = only(render(set=values), "NetworkPolicy")["spec"]["egress"]
    assert found == {"ports": [{"port": port, "protocol": "TCP"} for port in ports]}


def test_rules_for_learners_reach_the_operator_with_those_of_the_api_server(render: Render) -> None:
    assert "NITRO_LEARNER_EGRESS" not in environment(render())
    documents = render(CHART / "ci" / "everything-values.yaml")
    server, identity = json.loads(environment(documents)["NITRO_LEARNER_EGRESS"])
    assert [port["port"] for port in server["ports"]] == [443, 6443, 8443, 16443]
    assert [one["ipBlock"]["cidr"] for one in server["to"]] == ["192.0.2.10/32", "2001:db8::10/128"]
    assert identity == {"to": [{"ipBlock": {"cidr": "169.254.170.23/32"}}], "ports": [{"port": 80}]}
    (anywhere,) = json.loads(
        environment(render(set=["networkPolicy.learnerEgress.enabled=true"]))["NITRO_LEARNER_EGRESS"]
    )
    assert anywhere == {"ports": server["ports"]}


def test_one_operator_at_a_time(render: Render) -> None:
    spec = only(render(), "Deployment")["spec"]
    assert spec["replicas"] == 1
    assert spec["strategy"] == {"type": "Recreate"}
    lost = {"node.kubernetes.io/unreachable": 30, "node.kubernetes.io/not-ready": 30}
    found = spec["template"]["spec"]["tolerations"]
    assert {each["key"]: each["tolerationSeconds"] for each in found} == lost


@pytest.mark.parametrize(
    ("values", "names"),
    [
        ([], ["nitro-operator"]),
        ([CHART / "ci" / "namespaced-values.yaml"], ["nitro-operator.team-a", "nitro-operator.team-b"]),
    ],
)
def test_the_leases_are_where_the_operator_may_write_them_and_no_tenant(
    render: Render, values: list[Path], names: list[str]
) -> None:
    documents = render(*values)
    roles = [role for kind in ("Role", "ClusterRole") for role in of_kind(documents, kind)]
    (role,) = [role for role in roles if any("leases" in rule["resources"] for rule in role["rules"])]
    assert role["metadata"]["namespace"] == environment(documents)["NITRO_LEASE_NAMESPACE"] == "kube-system"
    look, renew = role["rules"]
    assert (look["verbs"], renew["verbs"]) == (["list", "create"], ["patch"])
    assert renew["resourceNames"] == names


def monitors(documents: list[Document]) -> set[str]:
    return {d["kind"] for d in documents if d["apiVersion"].startswith("monitoring.coreos.com/")}


def test_monitors_are_made_where_their_kinds_exist_or_on_request(render: Render) -> None:
    all_three = {"ServiceMonitor", "PodMonitor", "PrometheusRule"}
    assert monitors(render()) == set()
    assert monitors(render(api=MONITORS)) == all_three
    assert monitors(render(api=MONITORS[:1])) == {"ServiceMonitor"}
    assert monitors(render(CHART / "ci" / "everything-values.yaml")) == all_three
    off = [f"metrics.{name}.mode=disabled" for name in ("serviceMonitor", "podMonitor", "prometheusRule")]
    assert monitors(render(set=off, api=MONITORS)) == set()


def test_a_monitor_selects_the_services_of_the_chart(render: Render) -> None:
    documents = render(CHART / "ci" / "everything-values.yaml")
    service, monitor = only(documents, "Service"), only(documents, "ServiceMonitor")
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    ports = {port["name"]: port["targetPort"] for port in service["spec"]["ports"]}
    pod = only(documents, "Deployment")["spec"]["template"]
    assert monitor["spec"]["endpoints"][0]["port"] in ports
    assert set(ports.values()) == {port["name"] for port in pod["spec"]["containers"][0]["ports"]}
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()


def test_large_numbers_stay_whole(render: Render) -> None:
    documents = render(CHART / "ci" / "everything-values.yaml")
    found = environment(documents)
    assert found["NITRO_PLATFORM_MAX_ACTORS"] == "1000000"
    assert found["NITRO_NAMESPACE_MAX_ACTORS"] == "*=100000,team-a=0,"


def test_names_that_look_like_numbers_stay_text(helm: Helm) -> None:
    numbers = ['watchNamespaces=["2024"]', 'images.pullSecrets=["7"]']
    texts = ["knative.namespace=123", "serviceAccount.name=1e5", "operator.priorityClassName=10"]
    switched = ["metrics.scrapeConfig.enabled=true", "metrics.prometheusRule.mode=enabled"]
    command = ["template", "1e3", str(CHART), "--namespace", "42", "--kube-version", KUBE_VERSION]
    for option, values in (("--set-json", numbers), ("--set-string", texts), ("--set", switched)):
        command += [word for value in values for word in (option, value)]
    documents = [d for d in yaml.safe_load_all(helm.run(*command, "--set", "fullnameOverride=e")) if d]
    assert environment(documents)["NITRO_KNATIVE_NAMESPACE"] == "123"
    assert environment(documents)["NITRO_WATCH_NAMESPACES"] == "2024"
    pod = only(documents, "Deployment")["spec"]["template"]["spec"]
    assert (pod["serviceAccountName"], pod["priorityClassName"]) == ("1e5", "10")
    role = next(d for d in of_kind(documents, "Role") if d["metadata"]["namespace"] == "2024")
    assert role["metadata"]["labels"]["app.kubernetes.io/instance"] == "1e3"

    def texts_only(node: Any, path: str) -> None:
        """Whatever is a name, a namespace or a label is text for the API server, and for Prometheus."""
        if isinstance(node, list):
            for item in node:
                texts_only(item, path)
        elif isinstance(node, dict):
            for key, value in node.items():
                place = f"{path}.{key}"
                assert key not in ("name", "namespace", "value") or isinstance(value, str), place
                assert key not in ("labels", "matchLabels", "selector") or all(
                    isinstance(label, str | dict) for label in value.values()
                ), place
                texts_only(value, place)

    for document in documents:
        if document["kind"] != "CustomResourceDefinition":
            texts_only(document, f"{document['kind']}/{document['metadata']['name']}")
    scraped = next(d for d in of_kind(documents, "ConfigMap") if "nitro.scrape.yaml" in d["data"])
    found = yaml.safe_load(scraped["data"]["nitro.scrape.yaml"])["scrape_configs"]
    discovered = [config["kubernetes_sd_configs"][0]["namespaces"]["names"] for config in found]
    assert discovered == [["42"], ["2024"]]


def test_long_names_fit(render: Render) -> None:
    documents = render(set=[f"fullnameOverride={'x' * 60}"])
    assert all(len(document["metadata"]["name"]) <= 63 for document in documents)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("platform.maxActors=0", "maxActors"),
        ("podSecurity.runAsUser=0", "runAsUser"),
        ("podSecurity.fsGroup=root", "fsGroup"),
        ("platform.maxActors=many", "maxActors"),
        ("platform.namespaceMaxActors.Team=1", "Team"),
        ("platform.namespaceMaxActors.team=many", "team"),
        ("image.tag=1", "image"),
        ("images.actor.tags=1", "tags"),
        ("images.pullPolicy=Sometimes", "pullPolicy"),
        ("images.learner.digest=sha256:12", "digest"),
        ("watchNamespaces=[1]", "watchNamespaces"),
        ('watchNamespaces=["Team"]', "watchNamespaces"),
        ("metrics.podMonitor.mode=yes", "mode"),
        ("metrics.dashboards.enabled=1", "enabled"),
        ("metrics.scrapeConfig.interval=5s", "interval"),
        ("metrics.serviceMonitor.interval=1m", "interval"),
        ("metrics.podMonitor.interval=0s", "interval"),
        ("metrics.podMonitor.interval=250ms", "interval"),
        ("metrics.podMonitor.interval=121s", "interval"),
        ("metrics.podMonitor.interval=3m", "interval"),
        ("metrics.podMonitor.interval=60m", "interval"),
        ("fullnameOverride=team.nitro", "fullnameOverride"),
        ("nameOverride=2nd", "nameOverride"),
        ("operator.replicas=2", "replicas"),
        ('networkPolicy.learnerEgress.apiServerCidrs=["10.0.0.1"]', "apiServerCidrs"),
        ('networkPolicy.learnerEgress.apiServerCidrs=["10.0.0.1/99"]', "apiServerCidrs"),
        ('networkPolicy.learnerEgress.apiServerCidrs=["10.0.0.256/32"]', "apiServerCidrs"),
        ('networkPolicy.learnerEgress.apiServerCidrs=["fd00::1/129"]', "apiServerCidrs"),
        ('lambda.endpoints=["localhost:65536"]', "endpoints"),
        ('lambda.endpoints=["localhost:0"]', "endpoints"),
        ("networkPolicy.learnerEgress.rules=[{}]", "rules"),
        ('networkPolicy.learnerEgress.rules=[{"ports": [{"prot": 443}]}]', "prot"),
        ('networkPolicy.learnerEgress.rules=[{"to": [{"ipBlock": {"cidr": "10.0.0.1"}}]}]', "cidr"),
        ("serviceAccount.create=false", "name"),
    ],
)
def test_wrong_values_are_refused_by_name(render: Render, setting: str, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        render(set=[setting])


@pytest.mark.parametrize("interval", ["1s", "90s", "119s", "120s", "1m", "2m"])
def test_learners_may_be_scraped_from_every_second_to_every_two_minutes(
    render: Render, interval: str
) -> None:
    settings = ["metrics.podMonitor.mode=enabled", f"metrics.podMonitor.interval={interval}"]
    (endpoint,) = only(render(set=settings), "PodMonitor")["spec"]["podMetricsEndpoints"]
    assert endpoint["interval"] == interval


def test_right_addresses_and_ports_are_taken(render: Render) -> None:
    cidrs = '["0.0.0.0/0","10.0.0.1/32","255.255.255.255/9","::/0","fd00::1/128","::ffff:10.0.0.1/99"]'
    endpoints = '["*","localhost","localhost:1","localhost:65535"]'
    settings = (f"networkPolicy.learnerEgress.apiServerCidrs={cidrs}", f"lambda.endpoints={endpoints}")
    assert render(set=settings)


@pytest.mark.parametrize("release", ["1nitro", "my.nitro", "42"])
def test_a_release_name_that_no_service_can_have_needs_another_name_of_its_objects(
    helm: Helm, release: str
) -> None:
    """Helm takes it, and would leave an installation without its Services."""
    command = ["template", release, str(CHART), "--kube-version", KUBE_VERSION]
    with pytest.raises(AssertionError, match=f"{release}.*set fullnameOverride"):
        helm.run(*command)
    assert "name: platform-operator" in helm.run(*command, "--set", "fullnameOverride=platform")


def leaves(tree: dict[str, Any], path: str = "") -> set[str]:
    found = set()
    for key, value in tree.items():
        found |= leaves(value, f"{path}{key}.") if isinstance(value, dict) and value else {path + key}
    return found


def test_schema_and_values_name_the_same_things() -> None:
    def named(schema: dict[str, Any], path: str = "") -> set[str]:
        found = set()
        for key, value in schema["properties"].items():
            found |= named(value, f"{path}{key}.") if "properties" in value else {path + key}
        return found

    schema = named(json.loads((CHART / "values.schema.json").read_text()))
    values = leaves(yaml.safe_load((CHART / "values.yaml").read_text()))
    free = {"operator.resources.limits", "operator.resources.requests", "metrics.dashboards.labels"}
    values = {next((name for name in free if value.startswith(name)), value) for value in values}
    assert values | {"global"} == schema
