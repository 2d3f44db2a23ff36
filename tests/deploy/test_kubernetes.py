"""The manifests, against the published schemas of Kubernetes (kept beside this file) and against each other."""

import json
from ipaddress import ip_address, ip_network
from typing import Any

import yaml

from tests.deploy.files import DEPLOY, documents, ports
from tests.deploy.kubernetes import errors, identity
from tests.rows import each_row
from toolgauge.state.settings import StateSettings

MANIFESTS = sorted((DEPLOY / "kubernetes").rglob("*.yaml"))
FOLDERS = {"statefulset", "deployment", "judge"}
OBJECTS = [one for file in MANIFESTS for one in documents(file)]
POLICIES = {one["metadata"]["name"]: one["spec"] for one in OBJECTS if one["kind"] == "NetworkPolicy"}


def of_kind(kind: str) -> list[dict[str, Any]]:
    return [one for one in OBJECTS if one["kind"] == kind]


# One of the two is there: with a volume, or without.
STATEFUL_SET, DEPLOYMENT = of_kind("StatefulSet")[0]["spec"], of_kind("Deployment")[0]["spec"]
WORKLOADS = {"StatefulSet": STATEFUL_SET, "Deployment": DEPLOYMENT}
POD = DEPLOYMENT["template"]["spec"]
CONTAINER = POD["containers"][0]
PORTS = {port["name"]: port["containerPort"] for port in CONTAINER["ports"]}
CONFIGURATION = yaml.safe_load(of_kind("ConfigMap")[0]["data"]["toolgauge.yaml"])


@each_row("manifest", OBJECTS, ids=identity)
def test_every_manifest_follows_the_schema_of_its_kind(manifest: dict[str, Any]):
    assert errors(manifest) == []


def test_every_kind_is_there_and_either_workload_is_applied_beside_the_rest():
    others = ("ConfigMap", "NetworkPolicy", "NetworkPolicy", "PodDisruptionBudget", "Service", "Service")
    assert sorted(one["kind"] for one in OBJECTS) == sorted((*others, "Deployment", "StatefulSet"))
    assert {one["metadata"]["namespace"] for one in OBJECTS} == {"toolgauge"}
    alone = {file.parent.name: [one["kind"] for one in documents(file)] for file in MANIFESTS}
    assert {name: alone[name] for name in FOLDERS} == {
        "statefulset": ["StatefulSet"],
        "deployment": ["Deployment"],
        "judge": ["NetworkPolicy"],
    }


@each_row("kind", WORKLOADS)
def test_everything_selects_the_pods_of_the_workload(kind: str):
    labels = {"app.kubernetes.io/name": "toolgauge"}
    assert WORKLOADS[kind]["template"]["metadata"]["labels"] == labels
    assert WORKLOADS[kind]["selector"]["matchLabels"] == labels
    assert [one["spec"]["selector"] for one in of_kind("Service")] == [labels, labels]
    assert [policy["podSelector"]["matchLabels"] for policy in POLICIES.values()] == [labels, labels]
    assert of_kind("PodDisruptionBudget")[0]["spec"]["selector"]["matchLabels"] == labels


def test_ports_are_those_of_the_configuration_and_the_way_out_is_let_through():
    assert set(PORTS.values()) == ports(CONFIGURATION["receivers"]) | ports(CONFIGURATION["admin"]) | {9464}
    assert CONFIGURATION["exporters"]["prometheus"]["endpoint"] == "0.0.0.0:9464"
    named = [port["targetPort"] for service in of_kind("Service") for port in service["spec"]["ports"]]
    policy = POLICIES["toolgauge"]["ingress"]
    named += [port["port"] for rule in policy for port in rule["ports"]]
    assert set(named) <= set(PORTS)
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert CONTAINER[probe]["httpGet"] == {"path": "/", "port": "health"}
    assert PORTS["health"] in ports(CONFIGURATION["admin"])
    (onward,) = ports(CONFIGURATION["exporters"]["otlp"])
    assert onward in {port["port"] for rule in POLICIES["toolgauge"]["egress"] for port in rule["ports"]}


def test_the_way_to_a_judge_is_opened_by_itself_and_to_no_private_address():
    assert POLICIES["toolgauge-judge"]["policyTypes"] == ["Egress"]
    provider, gateway = POLICIES["toolgauge-judge"]["egress"]
    assert [port["port"] for port in provider["ports"]] == [443]
    blocks = [entry["ipBlock"] for entry in provider["to"]]
    for address, is_reached in (
        ("8.8.8.8", True),
        ("2606:4700::1", True),
        ("10.96.0.1", False),
        ("172.20.1.1", False),
        ("192.168.1.1", False),
        ("169.254.169.254", False),  # where clouds keep credentials of the machine
        ("fd00::1", False),
    ):
        assert any(is_in(address, block) for block in blocks) is is_reached, address
    assert gateway["to"] == [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "llm-gateway"}}}]


def is_in(address: str, block: dict[str, Any]) -> bool:
    where = ip_address(address)
    excluded = any(where in ip_network(each) for each in block["except"])
    return where in ip_network(block["cidr"]) and not excluded


def test_the_two_workloads_differ_by_the_state_alone():
    stateful = json.loads(json.dumps(STATEFUL_SET["template"]["spec"]))
    (container,) = stateful["containers"]
    assert [container["args"].pop() for _ in range(2)] == ["state.directory=/var/lib/toolgauge/state", "--set"]
    assert container["volumeMounts"].pop() == {"name": "state", "mountPath": "/var/lib/toolgauge"}
    assert stateful["securityContext"].pop("fsGroup") == stateful["securityContext"]["runAsGroup"]
    assert stateful["securityContext"].pop("fsGroupChangePolicy") == "OnRootMismatch"
    assert stateful == POD
    assert "state" not in CONFIGURATION
    assert "emptyDir" not in json.dumps(DEPLOYMENT)


def test_state_is_kept_in_a_volume_of_each_pod_that_holds_the_whole_journal():
    (claim,) = STATEFUL_SET["volumeClaimTemplates"]
    assert claim["metadata"]["name"] == "state"
    assert claim["spec"]["accessModes"] == ["ReadWriteOnce"]
    assert claim["spec"]["resources"]["requests"]["storage"] == "8Gi"
    assert StateSettings().max_bytes == 4 << 30
    headless = [one["metadata"]["name"] for one in of_kind("Service") if one["spec"].get("clusterIP") == "None"]
    assert [STATEFUL_SET["serviceName"]] == headless
