"""What a deployment controller runs: it ends with the answer, and waits as long as there is none."""

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, TypedDict, cast

import yaml

from tests.recordings.admin import Admin, arm, serving

ROOT = Path(__file__).parents[2]
GATE = ROOT / "examples" / "release-gate.sh"
TEMPLATE = ROOT / "deploy" / "argo-rollouts" / "analysis-template.yaml"

BASE = arm("1.0", 1000, 950)
WORSE = [BASE, arm("1.1", 400, 320, first_seen_ns=5)]
AS_GOOD = [arm("1.0", 5000, 4750), arm("1.1", 5000, 4760, first_seen_ns=5)]
EARLY = [BASE, arm("1.1", 3, 3, first_seen_ns=5)]


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "INTERVAL": "0", **more}


def gate(admin: Admin, seconds: int, *arguments: str) -> int:
    command = [str(GATE), admin.url, str(seconds), *arguments]
    return subprocess.run(command, env=environment(), capture_output=True, check=False, timeout=300).returncode


def test_the_gate_ends_with_the_answer():
    with serving(WORSE) as admin:
        assert gate(admin, 600) == 1
        admin.arms = AS_GOOD
        assert gate(admin, 600, "--base", "1.0", "--new", "1.1") == 0


def test_the_gate_waits_until_it_is_known():
    with serving(EARLY) as admin:
        asked = threading.Event()

        def answer_later() -> None:
            assert asked.wait(60)
            admin.arms = WORSE

        admin.on_request = asked.set
        thread = threading.Thread(target=answer_later)
        thread.start()
        assert gate(admin, 600) == 1
        thread.join()


def test_the_gate_ends_when_its_time_is_over():
    with serving(EARLY) as admin:
        assert gate(admin, 0) == 3


class Variable(TypedDict):
    """A variable of a container."""

    name: str
    value: str


class Container(TypedDict):
    """The part of a container that is run here."""

    command: list[str]
    args: list[str]
    env: list[Variable]


def container() -> Container:
    template: dict[str, Any] = yaml.safe_load(TEMPLATE.read_text())
    assert (template["apiVersion"], template["kind"]) == ("argoproj.io/v1alpha1", "AnalysisTemplate")
    (metric,) = template["spec"]["metrics"]
    spec = metric["provider"]["job"]["spec"]
    assert (spec["backoffLimit"], spec["template"]["spec"]["restartPolicy"]) == (0, "Never")
    (found,) = spec["template"]["spec"]["containers"]
    return cast("Container", found)


def test_the_job_of_the_analysis_ends_with_the_answer(tmp_path: Path):
    job = container()
    (tmp_path / "token").write_text("t0ken\n")
    values = {variable["name"]: variable["value"] for variable in job["env"] if variable["name"] != "PATH"}
    values |= {"TOKEN_FILE": str(tmp_path / "token"), "INTERVAL": "0", "TRIES": "2", "BASE": "1.0", "NEW": "1.1"}
    command = [*job["command"], *job["args"]]
    with serving(WORSE) as admin:
        values["URL"] = admin.url
        codes: list[int] = []
        for arms in (WORSE, AS_GOOD, EARLY):
            admin.arms = arms
            ended = subprocess.run(command, env=environment() | values, capture_output=True, check=False, timeout=300)
            codes.append(ended.returncode)
        assert codes == [1, 0, 3]
        assert admin.authorization == "Bearer t0ken"
