"""The example for the OpenTelemetry Operator: its parts are what Kubernetes and toolgauge take."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.command import run
from tests.deploy.files import DEPLOY, document, documents, ports
from tests.deploy.kubernetes import errors, part_errors

CONFIGMAP, COLLECTOR = documents(DEPLOY / "opentelemetry-operator" / "beside.yaml")
SPEC = COLLECTOR["spec"]
(CONTAINER,) = SPEC["additionalContainers"]
TOOLGAUGE = yaml.safe_load(CONFIGMAP["data"]["toolgauge.yaml"])
PAIR = DEPLOY / "collector" / "both-sides"


@pytest.mark.parametrize(
    ("name", "parts"),
    [("core.v1.Container", SPEC["additionalContainers"]), ("core.v1.Volume", SPEC["volumes"])],
)
def test_containers_and_volumes_follow_the_schemas_of_kubernetes(name: str, parts: list[dict[str, Any]]):
    assert [part_errors(name, part) for part in parts] == [[]]
    assert part_errors(name, {**parts[0], "misspelled": 1})


def test_the_configuration_of_toolgauge_is_valid(tmp_path: Path):
    assert errors(CONFIGMAP) == []
    (tmp_path / "toolgauge.yaml").write_text(CONFIGMAP["data"]["toolgauge.yaml"])
    done = run("validate", "--config", "toolgauge.yaml", cwd=tmp_path)
    assert done.code == 0, done.out + done.err


def test_the_collector_has_the_way_there_and_back_of_the_pair_that_is_run_in_tests():
    tested, own = document(PAIR / "collector.yaml"), SPEC["config"]
    assert own["service"] == tested["service"]
    assert own["exporters"]["otlp/toolgauge"] == tested["exporters"]["otlp/toolgauge"]
    assert own["receivers"]["otlp/scored"] == tested["receivers"]["otlp/scored"]
    assert ports(TOOLGAUGE["receivers"]) == ports(document(PAIR / "toolgauge.yaml")["receivers"])
    assert ports(TOOLGAUGE["exporters"]["otlp"]) == ports(own["receivers"]["otlp/scored"])


def test_the_container_is_that_of_the_plain_manifests_without_the_ports_for_senders():
    plain = document(DEPLOY / "kubernetes" / "deployment" / "deployment.yaml")["spec"]["template"]["spec"]
    (expected,) = plain["containers"]
    assert SPEC["terminationGracePeriodSeconds"] == plain["terminationGracePeriodSeconds"]
    for key in ("image", "args", "startupProbe", "readinessProbe", "livenessProbe", "resources"):
        assert CONTAINER[key] == expected[key]
    rights = {key: value for key, value in plain["securityContext"].items() if key != "fsGroup"}
    assert CONTAINER["securityContext"] == expected["securityContext"] | rights
    assert {port["containerPort"] for port in CONTAINER["ports"]} == {9464, 13133}
    assert [mount["name"] for mount in CONTAINER["volumeMounts"]] == [volume["name"] for volume in SPEC["volumes"]]


def test_one_replica_has_all_spans_of_a_trace():
    assert SPEC["replicas"] == 1
