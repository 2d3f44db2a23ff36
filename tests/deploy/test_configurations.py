"""What is to be pasted is valid, and the two halves of every topology fit together."""

from pathlib import Path
from typing import Any

from tests.cli.command import run
from tests.deploy.files import COLLECTORS, CONFIGURATIONS, DEPLOY, ROOT, document, ports, variables
from tests.rows import each_row

TOPOLOGIES = sorted(folder.name for folder in (DEPLOY / "collector").iterdir())
OPERATIONS = (ROOT / "docs" / "operations.md").read_text()


def name(file: Path) -> str:
    return str(file.relative_to(DEPLOY))


def validate(file: Path, **more: str) -> str:
    done = run("validate", "--config", str(file), cwd=file.parent, environment=more)
    assert done.code == 0, done.out + done.err
    return done.out


@each_row("file", CONFIGURATIONS, ids=name)
def test_every_configuration_of_toolgauge_is_valid(file: Path):
    assert validate(file).startswith("the configuration is valid; ")


def test_the_configuration_and_the_environment_of_the_service_go_together():
    service = DEPLOY / "systemd"
    assert validate(service / "toolgauge.yaml", **variables(service / "toolgauge.env"))


def test_the_configmap_is_a_valid_configuration(tmp_path: Path):
    for key, text in document(DEPLOY / "kubernetes" / "configmap.yaml")["data"].items():
        (tmp_path / key).write_text(text.replace("/etc/toolgauge/", f"{tmp_path}/"))
    assert "no-endless-search" in validate(tmp_path / "toolgauge.yaml")


def test_every_topology_is_there_with_both_halves():
    assert TOPOLOGIES == ["both-sides", "copy", "in-front", "keep-failed", "load-balancing"]
    for topology in TOPOLOGIES:
        files = {file.name for file in (DEPLOY / "collector" / topology).iterdir()}
        assert files == {"collector.yaml", "toolgauge.yaml"}


@each_row("topology", TOPOLOGIES)
def test_the_halves_of_a_topology_send_to_where_the_other_listens_and_nothing_comes_round_again(topology: str):
    toolgauge = document(DEPLOY / "collector" / topology / "toolgauge.yaml")
    collector = document(DEPLOY / "collector" / topology / "collector.yaml")
    back, exporters = ports(toolgauge["exporters"]["otlp"]), exporters_to_toolgauge(collector)
    assert back <= ports(collector["receivers"])
    towards = {port for exporter in exporters for port in targets(collector, exporter)}
    assert towards <= ports(toolgauge["receivers"])
    assert towards or topology in ("in-front", "keep-failed")
    way_back = {receiver for receiver, section in collector["receivers"].items() if ports(section) & back}
    assert len(way_back) == 1
    for pipeline in collector["service"]["pipelines"].values():
        assert not (exporters & set(pipeline["exporters"]) and way_back & set(pipeline["receivers"]))


@each_row("file", COLLECTORS, ids=name)
def test_every_component_of_a_collector_is_used(file: Path):
    collector = document(file)
    pipelines = collector["service"]["pipelines"].values()
    for kind in ("receivers", "processors", "exporters"):
        used = {component for pipeline in pipelines for component in pipeline.get(kind, [])}
        assert used == set(collector[kind])


def exporters_to_toolgauge(collector: dict[str, Any]) -> set[str]:
    return {exporter for exporter in collector["exporters"] if exporter in ("otlp/toolgauge", "loadbalancing")}


def targets(collector: dict[str, Any], exporter: str) -> set[int]:
    section = collector["exporters"][exporter]
    if exporter == "loadbalancing":
        return {int(host.rpartition(":")[2]) for host in section["resolver"]["static"]["hostnames"]}
    return ports(section)


def test_the_page_of_operations_names_every_topology_and_folder():
    for folder in (*(f"deploy/collector/{topology}" for topology in TOPOLOGIES), "docker", "kubernetes", "systemd"):
        assert folder in OPERATIONS
