"""What is copied into CI: the shell steps run in an empty folder with the installed command."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import yaml

from tests.wire.support import free_port

ROOT = Path(__file__).parents[2]
CI = ROOT / "examples" / "ci"
TRAFFIC = ROOT / "src" / "toolgauge" / "demo" / "traffic"
CRITERIA = """
- name: amounts
  evaluator: tool_call_args
  subset: true
  tools: [refund_order]
  expected: [{name: refund_order, args: {amount: 40.0}}]
"""
# Stands for an agent: sends a recording as its exporter would.
AGENT = """
import os, sys, urllib.request
assert os.environ["OTEL_EXPORTER_OTLP_PROTOCOL"] == "http/protobuf"
for file in sys.argv[1:]:
    url = os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] + "/v1/traces"
    headers = {"Content-Type": "application/x-protobuf"}
    urllib.request.urlopen(urllib.request.Request(url, open(file, "rb").read(), headers)).read()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "criteria.yaml").write_text(CRITERIA)
    (tmp_path / "runs with blanks").mkdir()
    for file in TRAFFIC.glob("openinference-langgraph.sequence.*"):
        shutil.copy(file, tmp_path / "runs with blanks")
    (tmp_path / "my_agent").mkdir()
    (tmp_path / "my_agent" / "cases.py").write_text(AGENT)
    (tmp_path / "ci").mkdir()
    shutil.copy(CI / "record.sh", tmp_path / "ci")
    return tmp_path


def environment(folder: Path, **more: str) -> dict[str, str]:
    commands = Path(sys.executable).parent
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "GITHUB_"))}
    return {**kept, "PATH": f"{commands}:{os.environ['PATH']}", "HOME": str(folder), **more}


def shell(folder: Path, script: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a script as a step with `shell: bash` does."""
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
    return subprocess.run(
        command,
        cwd=folder,
        env=environment(folder, **variables),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def action(folder: Path, **inputs: str) -> subprocess.CompletedProcess[str]:
    """Run the last step of the action with these inputs."""
    written: Any = yaml.safe_load((ROOT / "action.yml").read_text())
    given = {name: entry.get("default", "") for name, entry in written["inputs"].items()}
    given |= {name.replace("_", "-"): value for name, value in inputs.items()}
    step = written["runs"]["steps"][-1]
    variables = {
        name: given[text.removeprefix("${{ inputs.").removesuffix(" }}")] for name, text in step["env"].items()
    }
    summary = str(folder / "summary.md")
    return shell(folder, step["run"], GITHUB_ACTIONS="true", GITHUB_STEP_SUMMARY=summary, **variables)


def test_the_action_has_what_a_composite_action_needs():
    written: Any = yaml.safe_load((ROOT / "action.yml").read_text())
    assert set(written) == {"name", "description", "inputs", "outputs", "runs"}
    assert written["runs"]["using"] == "composite"
    assert [step["shell"] for step in written["runs"]["steps"]] == ["bash", "bash"]
    assert [step["run"] for step in written["runs"]["steps"] if "${{" in step["run"]] == []
    assert [name for name, entry in written["inputs"].items() if entry.get("required")] == ["files"]


def test_the_workflow_gives_the_action_inputs_that_it_has():
    inputs: Any = yaml.safe_load((ROOT / "action.yml").read_text())["inputs"]
    workflow: Any = yaml.safe_load((CI / "github" / "workflow.yml").read_text())
    (step,) = [one for one in workflow["jobs"]["tool-calls"]["steps"] if one.get("uses", "").startswith("./")]
    assert set(step["with"]) <= set(inputs)
    assert {name for name, entry in inputs.items() if entry.get("required")} <= set(step["with"])


def test_the_installing_step_leaves_an_installed_command_alone(folder: Path):
    written: Any = yaml.safe_load((ROOT / "action.yml").read_text())
    assert shell(folder, written["runs"]["steps"][0]["run"], PACKAGE="no-such-package").returncode == 0


def test_the_scoring_step_fails_and_reports(folder: Path):
    ended = action(folder, files="runs with blanks", criteria="criteria.yaml\n", fail_under="amounts=0.5\n")
    assert ended.returncode == 1
    assert "::error title=--fail-under amounts=0.5::" in ended.stderr
    assert (folder / "summary.md").read_text().startswith("### toolgauge check: failed, 1 failure\n")
    assert ET.parse(folder / "toolgauge.xml").getroot().get("failures") == "2"  # noqa: S314 - our own


def test_the_scoring_step_passes_with_its_defaults(folder: Path):
    ended = action(folder, files="runs with blanks")
    assert (ended.returncode, "::" in ended.stderr) == (0, False)


def test_the_script_of_the_gitlab_job_records_and_fails(folder: Path):
    job: Any = yaml.safe_load((CI / "gitlab.yml").read_text())["tool-calls"]
    record, check = job["script"]
    recordings = " ".join(f"'{file}'" for file in sorted((folder / "runs with blanks").iterdir()))
    ports = {"HTTP_PORT": str(free_port()), "GRPC_PORT": str(free_port())}
    recorded = shell(folder, f"{record} {recordings}", **ports)
    assert (recorded.returncode, recorded.stdout.splitlines()[-1]) == (0, "next: toolgauge check run.otlp")
    assert shell(folder, check).returncode == 1
    assert (folder / job["artifacts"]["reports"]["junit"]).exists()


def test_recording_ends_with_the_exit_code_of_the_command(folder: Path):
    ports = {"HTTP_PORT": str(free_port()), "GRPC_PORT": str(free_port())}
    assert shell(folder, "./ci/record.sh run.otlp sh -c 'exit 7'", **ports).returncode == 7
