"""The Helm chart: what it renders, as it is committed and as Helm renders it here, and what may be set."""

# pyright: reportUnknownMemberType=false

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.command import run as run_toolgauge
from tests.deploy.files import DEPLOY, ROOT, document, documents, ports
from tests.deploy.helm import (
    CASES,
    CHART,
    EXAMPLES,
    digest,
    installed,
    is_dashboard,
    render,
    rendered,
    run,
    values_schema,
    written,
)
from tests.deploy.kubernetes import errors
from tests.json_schemas import validator
from tests.rows import each_row

VALUES = document(CHART / "values.yaml")
SCHEMA = json.loads((CHART / "values.schema.json").read_text())
METADATA = document(CHART / "Chart.yaml")
PAGE = (ROOT / "docs" / "kubernetes.md").read_text()
DEFAULTS = rendered("defaults")
WRITE = "python -m tests.deploy.helm --write"

each_case = each_row("case", CASES, ids=str)
for_each_case = pytest.mark.parametrize("case", CASES)


@pytest.fixture
def helm(pytestconfig: pytest.Config) -> str:
    return installed(may_build=bool(pytestconfig.getoption("--long")))


def of_kind(manifests: list[dict[str, Any]], *kinds: str) -> list[dict[str, Any]]:
    return [one for one in manifests if one["kind"] in kinds]


def workloads(manifests: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {one["metadata"]["name"]: one["spec"] for one in of_kind(manifests, "StatefulSet", "Deployment")}


def configuration(manifests: list[dict[str, Any]], name: str = "toolgauge") -> dict[str, str]:
    (found,) = [one["data"] for one in of_kind(manifests, "ConfigMap") if one["metadata"]["name"] == name]
    return found


# -- what is committed --------------------------------------------------------------------------------------------------


def test_the_committed_manifests_are_of_this_chart():
    files = {file.stem: file.read_text() for file in (Path(__file__).parent / "rendered").iterdir()}
    assert files.keys() == set(CASES)
    chart = f"from the chart {digest()}\n"
    assert [case for case, text in files.items() if chart not in text] == [], f"render them again: `{WRITE}`"


@each_case
def test_every_manifest_follows_the_schema_of_its_kind_in_the_namespace_of_the_release(case: str):
    assert {one["kind"]: found for one in rendered(case) if (found := errors(one))} == {}
    assert {one["metadata"]["namespace"] for one in rendered(case)} == {"toolgauge"}


@for_each_case
def test_the_configuration_loads(case: str, tmp_path: Path):
    for key, text in configuration(rendered(case)).items():
        (tmp_path / key).write_text(text.replace("/etc/toolgauge/", f"{tmp_path}/"))
    (workload,) = [spec for name, spec in workloads(rendered(case)).items() if name == "toolgauge"]
    (container,) = [one for one in workload["template"]["spec"]["containers"] if one["name"] == "toolgauge"]
    variables = {one["name"]: "of the pod" for one in container.get("env", ())}
    done = run_toolgauge("validate", "--config", str(tmp_path / "toolgauge.yaml"), cwd=tmp_path, environment=variables)
    assert (done.code, done.out.startswith("the configuration is valid; ")) == (0, True), done.out + done.err


@each_case
def test_services_budgets_and_policies_select_pods_and_name_their_ports(case: str):
    manifests = rendered(case)
    pods = [spec["template"] for spec in workloads(manifests).values()]
    for service in of_kind(manifests, "Service"):
        (pod,) = selected(pods, service["spec"]["selector"])
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= port_names(pod)
    for one in of_kind(manifests, "PodDisruptionBudget", "PodMonitor"):
        assert len(selected(pods, one["spec"]["selector"]["matchLabels"])) == 1
    for policy in of_kind(manifests, "NetworkPolicy"):
        (pod,) = selected(pods, policy["spec"]["podSelector"]["matchLabels"])
        inward = {port["port"] for rule in policy["spec"]["ingress"] for port in rule["ports"]}
        assert inward <= port_names(pod)
    for name, spec in workloads(manifests).items():
        assert selected(pods, spec["selector"]["matchLabels"]) == [spec["template"]], name
        others = [rival for other, rival in workloads(manifests).items() if other != name]
        assert selected([rival["template"] for rival in others], spec["selector"]["matchLabels"]) == []


def selected(pods: list[dict[str, Any]], labels: dict[str, str]) -> list[dict[str, Any]]:
    return [pod for pod in pods if labels.items() <= pod["metadata"]["labels"].items()]


def port_names(pod: dict[str, Any]) -> set[str]:
    return {port["name"] for container in pod["spec"]["containers"] for port in container["ports"]}


@each_case
def test_containers_may_do_nothing_but_serve(case: str):
    for spec in workloads(rendered(case)).values():
        pod = spec["template"]["spec"]
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in pod["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert "memory" in container["resources"]["limits"]
            assert {"readinessProbe", "livenessProbe"} <= container.keys()


@each_case
def test_the_containers_ports_are_those_that_are_listened_on(case: str):
    manifests = rendered(case)
    toolgauge = yaml.safe_load(configuration(manifests)["toolgauge.yaml"])
    listening = {"toolgauge": ports(toolgauge["receivers"].get("otlp")) | ports(toolgauge["admin"]) | {9464}}
    if case == "sidecar":
        listening["toolgauge"] -= {24317, 24318}  # on loopback, for the Collector in the pod
    listening["collector"] = {4317, 4318}
    for spec in workloads(manifests).values():
        for container in spec["template"]["spec"]["containers"]:
            assert {port["containerPort"] for port in container["ports"]} == listening[container["name"]]


# -- what is promised ---------------------------------------------------------------------------------------------------


def test_the_defaults_are_the_plain_manifests_with_labels_of_the_release():
    (plain,) = documents(DEPLOY / "kubernetes" / "statefulset" / "statefulset.yaml")
    expected, pod = plain["spec"]["template"]["spec"], workloads(DEFAULTS)["toolgauge"]["template"]["spec"]
    expected["enableServiceLinks"] = False
    (container,) = expected["containers"]
    container["imagePullPolicy"] = "IfNotPresent"
    assert [container["args"].pop() for _ in range(2)] == ["state.directory=/var/lib/toolgauge/state", "--set"]
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        container[probe]["httpGet"]["scheme"] = "HTTP"
    assert pod == expected
    assert workloads(DEFAULTS)["toolgauge"]["volumeClaimTemplates"] == plain["spec"]["volumeClaimTemplates"]
    own = yaml.safe_load(configuration(DEFAULTS)["toolgauge.yaml"])
    theirs = yaml.safe_load(document(DEPLOY / "kubernetes" / "configmap.yaml")["data"]["toolgauge.yaml"])
    assert own.pop("state") == {"directory": "/var/lib/toolgauge/state"}
    assert own == theirs


def test_the_defaults_install_what_the_readme_promises():
    kinds = [one["kind"] for one in DEFAULTS]
    # Scores in the path, in a place that outlives a crash, for senders of both protocols.
    assert "StatefulSet" in kinds
    (service,) = [one["spec"] for one in of_kind(DEFAULTS, "Service") if one["metadata"]["name"] == "toolgauge"]
    assert {port["name"]: port["port"] for port in service["ports"]} == {"otlp-grpc": 4317, "otlp-http": 4318}
    own = yaml.safe_load(configuration(DEFAULTS)["toolgauge.yaml"])
    # The criteria without a reference and the web view are those of toolgauge's defaults: nothing switches them off.
    assert own.keys() == {"receivers", "exporters", "admin", "criteria_files", "state"}
    # Metrics, rules, alerts and dashboards; who may reach it, and that a drained node does not end it.
    assert {"PodMonitor", "PrometheusRule", "NetworkPolicy", "PodDisruptionBudget"} <= set(kinds)
    boards = {file for one in DEFAULTS if is_dashboard(one) for file in one["data"]}
    assert boards == {file.name for file in (DEPLOY / "grafana" / "dashboards").iterdir()}
    (monitor,) = of_kind(DEFAULTS, "PodMonitor")
    job = workloads(DEFAULTS)["toolgauge"]["template"]["metadata"]["labels"][monitor["spec"]["jobLabel"]]
    assert f'job="{job}"' in (DEPLOY / "prometheus" / "alerts.yaml").read_text()


def test_only_loopback_and_the_collector_reach_toolgauge_where_a_collector_is_in_front():
    beside = yaml.safe_load(configuration(rendered("sidecar"))["toolgauge.yaml"])["receivers"]["otlp"]["protocols"]
    assert {protocol["endpoint"].partition(":")[0] for protocol in beside.values()} == {"localhost"}
    policies = {one["metadata"]["name"]: one["spec"] for one in of_kind(rendered("gateway"), "NetworkPolicy")}
    (peer,) = policies["toolgauge"]["ingress"][0]["from"]
    assert peer["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == "collector"


@each_row("case", ["gateway", "conversations"])
def test_the_balancer_knows_every_instance_by_a_name_that_a_restart_leaves_alone(case: str):
    manifests = rendered(case)
    spec = workloads(manifests)["toolgauge"]
    (headless,) = [one for one in of_kind(manifests, "Service") if one["spec"].get("clusterIP") == "None"]
    assert headless["metadata"]["name"] == spec["serviceName"]
    names = [f"toolgauge-{number}.toolgauge-instances.toolgauge.svc:4317" for number in range(spec["replicas"])]
    assert resolver(manifests) == {"static": {"hostnames": names}}


def test_without_volumes_instances_are_asked_of_the_headless_service():
    manifests = rendered("without-volumes")
    assert resolver(manifests) == {"dns": {"hostname": "toolgauge-instances.toolgauge.svc", "port": "4317"}}
    assert "state" not in yaml.safe_load(configuration(manifests)["toolgauge.yaml"])
    assert of_kind(manifests, "StatefulSet") == []


def resolver(manifests: list[dict[str, Any]]) -> dict[str, Any]:
    collector = yaml.safe_load(configuration(manifests, "toolgauge-collector")["collector.yaml"])
    return collector["exporters"]["loadbalancing"]["resolver"]


def test_consumers_have_names_that_a_restart_leaves_alone_and_no_volume():
    manifests = rendered("kafka")
    receiver = yaml.safe_load(configuration(manifests)["toolgauge.yaml"])["receivers"]["kafka"]
    assert receiver["group_instance_id"] == "${env:POD_NAME}"
    spec = workloads(manifests)["toolgauge"]
    assert of_kind(manifests, "StatefulSet")[0]["spec"] == spec
    assert "volumeClaimTemplates" not in spec
    (name,) = spec["template"]["spec"]["containers"][0]["env"]
    assert name == {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}


def test_the_collector_writes_the_topics_that_consumers_read_by_trace():
    manifests = rendered("kafka")
    exporter = yaml.safe_load(configuration(manifests, "toolgauge-collector")["collector.yaml"])["exporters"]["kafka"]
    receiver = yaml.safe_load(configuration(manifests)["toolgauge.yaml"])["receivers"]["kafka"]
    assert {signal: exporter[signal]["topic"] for signal in ("traces", "logs")} == receiver["topics"]
    assert exporter["brokers"] == receiver["brokers"]
    assert exporter["partition_traces_by_id"] is exporter["partition_logs_by_trace_id"] is True


def test_nothing_sends_to_consumers_and_they_reach_the_brokers():
    policies = {one["metadata"]["name"]: one["spec"] for one in of_kind(rendered("kafka"), "NetworkPolicy")}
    assert [[port["port"] for port in rule["ports"]] for rule in policies["toolgauge"]["ingress"]] == [
        ["metrics", "health"]
    ]
    brokers = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kafka"}}}
    for policy in policies.values():
        assert {"to": [brokers], "ports": [{"protocol": "TCP", "port": 9092}]} in policy["egress"]
    (service,) = of_kind(rendered("kafka-autoscaled"), "Service")
    assert [port["name"] for port in service["spec"]["ports"]] == ["metrics"]


def test_keda_scales_the_consumers_by_the_lag_of_their_group():
    manifests = rendered("kafka-autoscaled")
    (workload,) = of_kind(manifests, "StatefulSet")
    assert "replicas" not in workload["spec"]
    (scaled,) = of_kind(manifests, "ScaledObject")
    target = scaled["spec"]["scaleTargetRef"]
    assert (target["kind"], target["name"]) == (workload["kind"], workload["metadata"]["name"])
    receiver = yaml.safe_load(configuration(manifests)["toolgauge.yaml"])["receivers"]["kafka"]
    assert {trigger["metadata"]["topic"] for trigger in scaled["spec"]["triggers"]} == set(receiver["topics"].values())
    (secret,) = of_kind(manifests, "TriggerAuthentication")
    for trigger in scaled["spec"]["triggers"]:
        assert trigger["metadata"]["consumerGroup"] == receiver["group_id"]
        assert trigger["metadata"]["bootstrapServers"] == ",".join(receiver["brokers"])
        assert trigger["authenticationRef"]["name"] == secret["metadata"]["name"]


def test_passwords_of_the_brokers_stay_in_their_secret():
    manifests = rendered("kafka-autoscaled")
    receiver = yaml.safe_load(configuration(manifests)["toolgauge.yaml"])["receivers"]["kafka"]
    written_down = receiver["auth"]["sasl"]["password"]
    assert written_down == "${env:KAFKA_PASSWORD}"
    pod = workloads(manifests)["toolgauge"]["template"]["spec"]
    (container,) = pod["containers"]
    (password,) = [one for one in container["env"] if one["name"] == "KAFKA_PASSWORD"]
    assert password["valueFrom"] == {"secretKeyRef": {"name": "toolgauge-kafka", "key": "password"}}
    mounted = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert receiver["tls"]["ca_file"] == f"{mounted['kafka-ca']}/ca.crt"
    assert {"name": "kafka-ca", "secret": {"secretName": "kafka-cluster-ca-cert"}} in pod["volumes"]


# -- what may be set ----------------------------------------------------------------------------------------------------


def test_the_chart_has_the_version_of_the_package_and_the_collector_that_of_the_compose_file():
    package = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert (METADATA["version"], METADATA["appVersion"]) == (package["version"], package["version"])
    assert METADATA["description"] == package["description"]
    image = VALUES["collector"]["image"]
    composed = document(DEPLOY / "docker" / "compose.yaml")["services"]["collector"]["image"]
    assert f"{image['repository']}:{image['tag']}" == composed


def test_the_schema_of_the_values_has_toolgauges_configuration_as_it_is():
    assert values_schema() == SCHEMA, f"write it again: `{WRITE}`"


@each_row("file", [CHART / "values.yaml", *EXAMPLES])
def test_values_follow_their_schema(file: Path):
    assert wrong(document(file)) == []


@each_row(
    ("values", "path"),
    [
        ({"topologie": "gateway"}, "$"),
        ({"topology": "sidecars"}, "$.topology"),
        ({"replicas": 0}, "$.replicas"),
        ({"config": {"assemble": {"idle_timout": "30s"}}}, "$.config.assemble"),
        ({"config": {"assemble": {"idle_timeout": "30 sec"}}}, "$.config.assemble.idle_timeout"),
        ({"collector": {"routing": "traceID"}}, "$.collector.routing"),
        ({"journal": {"size": "8 GB"}}, "$.journal.size"),
    ],
)
def test_wrong_values_are_refused_with_the_key(values: dict[str, Any], path: str):
    assert [where for where, _ in wrong(values)] == [path]


def wrong(values: Any) -> list[tuple[str, str]]:  # noqa: ANN401 (any YAML)
    draft_7 = validator(SCHEMA, draft="Draft7Validator")
    draft_7.check_schema(SCHEMA)
    return [(error.json_path, error.message) for error in draft_7.iter_errors(values)]


def test_the_page_has_every_key_and_every_example():
    for name in VALUES:
        assert f"`{name}" in PAGE, name
    for example in EXAMPLES:
        assert f"deploy/helm/examples/{example.name}" in PAGE


# -- with Helm ----------------------------------------------------------------------------------------------------------


@for_each_case
def test_helm_renders_what_is_committed_and_finds_nothing_to_complain_about(helm: str, case: str):
    committed = (Path(__file__).parent / "rendered" / f"{case}.yaml").read_text()
    assert written(case, render(helm, case)) == committed, f"render them again: `{WRITE}`"
    values = [] if case == "defaults" else ["--values", str(DEPLOY / "helm" / "examples" / f"{case}.yaml")]
    done = run(helm, "lint", "--strict", str(CHART), *values)
    assert done.returncode == 0, done.stdout + done.stderr


def test_dashboards_and_rules_are_those_of_the_files_they_come_from(helm: str):
    manifests = render(helm, "defaults")
    boards = {name: json.loads(text) for one in manifests if is_dashboard(one) for name, text in one["data"].items()}
    folder = DEPLOY / "grafana" / "dashboards"
    assert boards == {file.name: json.loads(file.read_text()) for file in folder.iterdir()}
    (rule,) = of_kind(manifests, "PrometheusRule")
    files = [document(DEPLOY / "prometheus" / f"{name}.yaml")["groups"] for name in ("rules", "alerts")]
    assert rule["spec"]["groups"] == [group for groups in files for group in groups]
    assert errors(rule) == []


def test_addresses_of_grafana_and_of_the_runbooks_stand_in_every_alert(helm: str):
    addresses = (
        "prometheusRule.grafanaUrl=https://grafana.internal/",
        "prometheusRule.runbookUrl=https://wiki.internal",
    )
    (rule,) = of_kind(
        render(helm, "defaults", *(part for one in addresses for part in ("--set", one))), "PrometheusRule"
    )
    alerts = [each for group in rule["spec"]["groups"] for each in group["rules"] if "alert" in each]
    for alert in alerts:
        assert alert["annotations"]["dashboard_url"].startswith("https://grafana.internal/d/")
        assert alert["annotations"]["runbook_url"].startswith("https://wiki.internal/alerting.html#")


def test_a_cluster_without_the_operator_gets_annotations_in_place_of_its_resources(helm: str):
    done = run(helm, "template", "toolgauge", str(CHART), "--kube-version", "1.34.0")
    manifests = [one for one in yaml.safe_load_all(done.stdout) if one]
    assert of_kind(manifests, "PodMonitor", "PrometheusRule") == []
    annotations = workloads(manifests)["toolgauge"]["template"]["metadata"]["annotations"]
    assert annotations == {"prometheus.io/scrape": "true", "prometheus.io/port": "9464"}


def test_what_is_set_reaches_the_configuration_and_the_rest_stays(helm: str):
    settings = ("config.exporters.otlp.compression=none", "config.assemble.idle_timeout=10s", "config.annotate=off")
    manifests = render(helm, "gateway", *(part for one in settings for part in ("--set", one)))
    own = yaml.safe_load(configuration(manifests)["toolgauge.yaml"])
    endpoint = "otel-collector.observability.svc.cluster.local:4317"
    assert own["exporters"]["otlp"] == {"compression": "none", "endpoint": endpoint}
    assert own["assemble"] == {"idle_timeout": "10s"}
    assert own["annotate"] == "off"
    assert own["admin"] == {"endpoint": "0.0.0.0:13133", "insecure": True}


@each_row(
    ("setting", "reason"),
    [
        ("replicas=2", "replicas: 2 needs `topology: gateway` or `kafka`"),
        ("topology=kafka,kafka.sasl.mechanism=PLAIN", "kafka.sasl.username: needed with `kafka.sasl.mechanism`"),
        ("topology=cluster", "topology"),
        ("config.assemble.idle_timout=30s", "idle_timout"),
    ],
)
def test_helm_refuses_what_cannot_work_and_names_it(helm: str, setting: str, reason: str):
    done = run(helm, "template", "toolgauge", str(CHART), "--kube-version", "1.34.0", "--set", setting)
    assert done.returncode == 1
    assert reason in done.stderr
