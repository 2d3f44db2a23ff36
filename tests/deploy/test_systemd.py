"""The unit, checked by systemd itself where that is there."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.deploy.files import DEPLOY, variables

UNIT = DEPLOY / "systemd" / "toolgauge.service"


def section(name: str) -> dict[str, list[str]]:
    """Read one section; a key may come several times."""
    read: dict[str, list[str]] = {}
    inside = False
    for line in UNIT.read_text().splitlines():
        if line.startswith("["):
            inside = line == f"[{name}]"
        elif inside and "=" in line and not line.startswith("#"):
            key, _, value = line.partition("=")
            read.setdefault(key, []).append(value)
    return read


def test_the_unit_reloads_on_hup_keeps_its_state_and_is_not_started_over_and_over():
    service = section("Service")
    assert service["ExecReload"] == ["/bin/kill -HUP $MAINPID"]
    assert int(service["TimeoutStopSec"][0].removesuffix("s")) > 30
    (start,) = service["ExecStart"]
    assert start.startswith("/opt/toolgauge/bin/toolgauge serve --config /etc/toolgauge/toolgauge.yaml ")
    # systemd fills in the path of its `StateDirectory`.
    assert start.endswith(" --set state.directory=${STATE_DIRECTORY}")
    assert (service["StateDirectory"], service["StateDirectoryMode"]) == (["toolgauge"], ["0700"])
    assert service["DynamicUser"] == ["yes"]
    assert section("Install") == {"WantedBy": ["multi-user.target"]}
    # systemd compares the exit code of ExecStart alone with these.
    assert service["RestartPreventExitStatus"] == ["2"]
    assert "ExecStartPre" not in service


def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path):
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("no systemd-analyze on this machine")
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace("/opt/toolgauge/bin/toolgauge", "/bin/true"))
    done = subprocess.run([analyze, "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    unit.write_text(unit.read_text().replace("DynamicUser=yes", "DynamicUsr=yes"))
    done = subprocess.run([analyze, "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False)
    assert "DynamicUsr" in done.stderr


def test_the_environment_file_is_the_one_that_the_unit_reads():
    assert section("Service")["EnvironmentFile"] == ["-/etc/toolgauge/toolgauge.env"]
    assert variables(UNIT.with_name("toolgauge.env")) == {
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:14317",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
    }
