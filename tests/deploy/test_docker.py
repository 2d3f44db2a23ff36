"""The image and the compose file, as far as they can be checked without an engine."""

# pyright: reportUnknownMemberType=false

import json
import re
import shutil
import subprocess
import sys
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest

from tests.cli.command import run
from tests.deploy.files import DEPLOY, ROOT, document, ports
from tests.json_schemas import validator

DOCKER = DEPLOY / "docker"
DOCKERFILE = DOCKER / "Dockerfile"
CONFIGURATION = document(DOCKER / "toolgauge.yaml")
COMPOSE = document(DOCKER / "compose.yaml")
SERVICES = COMPOSE["services"]
PROMETHEUS = document(DOCKER / "prometheus.yml")


def instructions(text: str) -> list[tuple[str, str]]:
    """Read instructions and what follows them, continued lines joined."""
    joined = re.sub(r"\\\n\s*", "", re.sub(r"(?m)^#.*\n", "", text))
    return [(word, rest.strip()) for line in joined.splitlines() if line for word, _, rest in [line.partition(" ")]]


def last_stage() -> dict[str, str]:
    found = instructions(DOCKERFILE.read_text())
    start = max(number for number, (word, _) in enumerate(found) if word == "FROM")
    return dict(found[start:])


def copied() -> list[str]:
    sources = [rest.split() for word, rest in instructions(DOCKERFILE.read_text()) if word == "COPY"]
    return [source for words in sources if not words[0].startswith("--from") for source in words[:-1]]


def test_everything_that_is_copied_is_there_and_reaches_the_engine():
    let_in = [line[1:] for line in (DOCKER / "Dockerfile.dockerignore").read_text().splitlines() if line[:1] == "!"]
    assert "deploy/requirements.txt" in copied()
    for source in copied():
        assert (ROOT / source).exists()
        assert any(fnmatch(source, pattern) for pattern in let_in)
    assert sorted(let_in) == sorted(copied())


def test_what_the_image_installs_is_pinned_and_complete():
    (install,) = [rest for word, rest in instructions(DOCKERFILE.read_text()) if word == "RUN" and "-r /tmp" in rest]
    assert "--require-hashes" in install
    pins = (DEPLOY / "requirements.txt").read_text().lower()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for requirement in (*project["dependencies"], *project["optional-dependencies"]["kafka"]):
        package = re.split(r"[<>=\[]", requirement.lower())[0]
        assert re.search(rf"(?m)^{re.escape(package)}(\[.*\])?==", pins), requirement


def test_the_image_runs_as_nobody_in_particular_with_a_volume_its_ports_its_health_and_a_pinned_base():
    stage, found = last_stage(), instructions(DOCKERFILE.read_text())
    assert "RUN" not in stage
    assert stage["USER"] == "10001:10001"
    assert stage["STOPSIGNAL"] == "SIGTERM"
    assert stage["ENTRYPOINT"] == '["/opt/toolgauge/bin/toolgauge"]'
    assert stage["CMD"] == '["serve", "--config", "/etc/toolgauge/toolgauge.yaml"]'
    assert {int(port) for port in stage["EXPOSE"].split()} == ports(CONFIGURATION) == {4317, 4318, 9464, 13133}
    (admin,) = ports(CONFIGURATION["admin"])
    assert f"urlopen('http://localhost:{admin}/', timeout=2)" in stage["HEALTHCHECK"]
    base, *stages = [rest for word, rest in found if word == "FROM"]
    assert re.fullmatch(r"python:3\.\d+\.\d+-slim-\w+@sha256:[0-9a-f]{64} AS base", base)
    assert stages == ["base AS build", "base"]
    assert ("VOLUME", '["/var/lib/toolgauge"]') in found
    assert ("COPY", "--from=build --chown=10001:10001 /state /var/lib/toolgauge") in found
    # A container that is started anew without naming the volume would leave behind what waits in it.
    assert "state" not in CONFIGURATION


@pytest.mark.needs("deploy")
def test_hadolint_finds_nothing():
    hadolint = str(Path(sys.executable).parent / "hadolint")
    done = subprocess.run([hadolint, str(DOCKERFILE)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


# -- compose ------------------------------------------------------------------------------------------------------------


def test_compose_follows_its_specification():
    schema = json.loads((Path(__file__).parent / "compose-spec.json").read_text())
    found = [f"{error.json_path}: {error.message}" for error in validator(schema).iter_errors(COMPOSE)]
    assert found == []


def test_images_are_pinned_and_ports_are_published_on_loopback_only():
    for name, service in SERVICES.items():
        image, _, version = service["image"].partition(":")
        assert image == "toolgauge" or re.fullmatch(r"v?\d+\.\d+\.\d+", version), name
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))


def test_compose_mounts_and_builds_what_is_there():
    for service in COMPOSE["services"].values():
        for volume in service.get("volumes", []):
            source, _, _ = volume.partition(":")
            assert source in COMPOSE["volumes"] or (DOCKER / source).exists()
    build = COMPOSE["services"]["toolgauge"]["build"]
    assert (DOCKER / build["context"]).resolve() == ROOT
    assert (ROOT / build["dockerfile"]) == DOCKERFILE


def test_the_services_of_compose_send_to_where_the_others_listen():
    collector = document(DOCKER / "collector.yaml")
    onward = COMPOSE["services"]["toolgauge"]["environment"]["OTEL_EXPORTER_OTLP_ENDPOINT"]
    assert onward == "http://collector:14317"
    assert ports(collector["receivers"]["otlp/scored"]) == {14317}
    assert collector["exporters"]["otlp/toolgauge"]["endpoint"] == "toolgauge:4317"
    assert 4317 in ports(CONFIGURATION["receivers"])
    published = {port.rpartition(":")[2] for port in COMPOSE["services"]["collector"]["ports"]}
    assert published == {"4317", "4318"}
    assert ports(collector["receivers"]["otlp/agents"]) == {4317, 4318}
    (job,) = PROMETHEUS["scrape_configs"]
    assert job["static_configs"] == [{"targets": ["toolgauge:9464"]}]
    assert ports(CONFIGURATION["exporters"]) == {9464}
    assert "--enable-feature=exemplar-storage" in SERVICES["prometheus"]["command"]


def test_traces_and_alerts_go_to_where_they_are_asked_for():
    collector, tempo = document(DOCKER / "collector.yaml"), document(DOCKER / "tempo.yaml")
    assert collector["exporters"]["otlp/tempo"]["endpoint"] == "tempo:4317"
    assert "otlp/tempo" in collector["service"]["pipelines"]["traces/scored"]["exporters"]
    assert ports(tempo["distributor"]["receivers"]) == {4317}
    sources = document(DEPLOY / "grafana" / "provisioning" / "datasources" / "sources.yaml")["datasources"]
    urls = {source["type"]: source["url"] for source in sources}
    of_tempo = f"http://tempo:{tempo['server']['http_listen_port']}"
    assert urls == {"prometheus": "http://prometheus:9090", "tempo": of_tempo}
    (interval,) = [source["jsonData"]["timeInterval"] for source in sources if source["type"] == "prometheus"]
    assert PROMETHEUS["global"]["scrape_interval"] == interval
    mounts = dict(volume.split(":")[:2] for volume in SERVICES["prometheus"]["volumes"])
    loaded = {f"/etc/prometheus/{file}" for file in PROMETHEUS["rule_files"]}
    assert loaded == {mounts["../prometheus/rules.yaml"], mounts["../prometheus/alerts.yaml"]}
    (alertmanagers,) = PROMETHEUS["alerting"]["alertmanagers"]
    assert alertmanagers["static_configs"] == [{"targets": ["alertmanager:9093"]}]


def test_the_sender_uses_our_image_and_sends_to_the_collector():
    sender = SERVICES["sender"]
    assert sender["image"] == SERVICES["toolgauge"]["image"]
    assert sender["environment"] == {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4317"}
    module = sender["entrypoint"][sender["entrypoint"].index("-m") + 1]
    done = subprocess.run(
        [sys.executable, "-m", module, *sender["entrypoint"][3:], "--help"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_configuration_of_the_trial_is_valid(tmp_path: Path):
    files: list[str] = []
    mounted = map(mount_parts, SERVICES["toolgauge"]["volumes"])
    mounts = {target: DOCKER / source for source, target, *_ in mounted if source not in COMPOSE["volumes"]}
    mounts["/etc/toolgauge/toolgauge.yaml"] = DOCKER / "toolgauge.yaml"
    for target, source in mounts.items():
        (tmp_path / Path(target).name).write_text(source.read_text().replace("/etc/toolgauge/", f"{tmp_path}/"))
    for word in SERVICES["toolgauge"]["command"][1:]:
        option, _, value = word.partition("=")
        files += [option, str(tmp_path / Path(value).name) if option == "--config" else value]
    done = run("validate", *files)
    assert done.code == 0, done.out + done.err


def mount_parts(volume: str) -> list[str]:
    return volume.split(":")


def test_the_trial_keeps_its_state_in_the_volume_of_the_image_and_is_given_time_to_stop():
    service = SERVICES["toolgauge"]
    assert "--set=state.directory=/var/lib/toolgauge/state" in service["command"]
    assert "toolgauge:/var/lib/toolgauge" in service["volumes"]
    assert "toolgauge" in COMPOSE["volumes"]
    assert int(service["stop_grace_period"].removesuffix("s")) > 30
    assert f":{next(iter(ports(CONFIGURATION['admin'])))}/" in service["healthcheck"]["test"][-1]


def test_prometheus_and_alertmanager_accept_their_configurations(tmp_path: Path):
    promtool, amtool = shutil.which("promtool"), shutil.which("amtool")
    if promtool is None or amtool is None:
        pytest.skip("no promtool or no amtool on this machine")
    for file in (DOCKER / "prometheus.yml", *(DEPLOY / "prometheus" / name for name in PROMETHEUS["rule_files"])):
        shutil.copy(file, tmp_path)
    for command in (
        [promtool, "check", "config", str(tmp_path / "prometheus.yml")],
        [amtool, "check-config", str(DOCKER / "alertmanager.yaml")],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
