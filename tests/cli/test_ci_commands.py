"""Names and values of a recording are no commands to the CI system that reads the log of a step."""

import json
from pathlib import Path

import click
import pytest

from tests.cli.command import run, run_on_terminal
from tests.cli.hostile_names import HOSTILE, INSIDE, OURS, OUTSIDE, acting, read_as_commands, recorded
from toolgauge.cli.main import commands
from toolgauge.report.streams import without_commands

# Each command in its forms: RECORDING, CRITERIA, CASES and CONFIG are files of hostile texts, NAME is one.
FORMS: dict[str, tuple[str, ...]] = {
    "ack": ("--service NAME --admin http://127.0.0.1:1",),
    "check": (
        "RECORDING --criteria CRITERIA --set redact.values=show --junit j --markdown m --html h --sarif s --baseline b",
        "RECORDING --criteria CRITERIA --json",
        "RECORDING --fail-under NAME",
        "RECORDING --calls",
        "RECORDING --calls --json",
        "RECORDING --criterion default.tool_success",
        "RECORDING --criterion NAME",
        "RECORDING --trace 00 --json",
        "RECORDING --firings --criteria CRITERIA",
        "RECORDING --criteria NAME",
        "CASES --junit j --markdown m --sarif s",
        "CASES --json",
        "--labels NAME:",
        "NAME",
    ),
    "compare": (
        "RECORDING RECORDING",
        "RECORDING RECORDING --json",
        "RECORDING RECORDING --markdown",
        "--agents RECORDING",
        "--agents RECORDING --markdown",
    ),
    "demo": ("NAME",),
    "doctor": ("RECORDING", "RECORDING --json"),
    "expect": ("RECORDING --key gen_ai.agent.name --tools all --promote", "RECORDING --key NAME"),
    "init": ("--directory . --force RECORDING", "--directory . --force NAME", "--from CASES", "--from NAME"),
    "learn": ("RECORDING --min-runs 2 --false-alarms 1", "RECORDING --labels CASES"),
    "mcp": ("NAME",),
    "record": ("-o NAME",),
    "serve": ("--config CONFIG", "--set NAME"),
    "validate": (
        "--config CONFIG",
        "--set criteria_files=[NAME]",
        "--print --config CONFIG",
        "--print --set trace_url=http://a.example/NAME",
        "--components",
        "--schema NAME",
    ),
}


def hostile_files(folder: Path) -> dict[str, str]:
    """Write a file of each kind that commands read."""
    cases = folder / "cases.jsonl"
    with cases.open("w") as lines:
        for name in HOSTILE:
            for expected in ({"tool_calls_order": [name, "a"]}, name):
                case = {"id": name, "evaluator": "uipath.tool_call_order", "expected": expected}
                lines.write(f"{json.dumps({**case, 'actual': {'trajectory': [name]}})}\n")
            lines.write(f"{json.dumps({'id': name, 'evaluator': name, 'config': {name: 1}})}\n{name}\n")
    criteria = folder / "criteria.yaml"
    expected = [{"name": name, "args": {name: f"{name}!"}} for name in HOSTILE]
    criteria.write_text(json.dumps({"criteria": [{"name": "f1", "evaluator": "tool_call_args", "expected": expected}]}))
    config = folder / "config.yaml"
    config.write_text(json.dumps({name: {name: 1} for name in HOSTILE}))
    recording = recorded(folder, *HOSTILE, *HOSTILE)
    return {"RECORDING": recording, "CRITERIA": str(criteria), "CASES": str(cases), "CONFIG": str(config)}


def test_every_command_is_walked():
    context = click.Context(commands)
    assert list(FORMS) == sorted(commands.list_commands(context))


@pytest.mark.parametrize("is_terminal", [False, True])
@pytest.mark.parametrize("command", FORMS)
def test_no_name_becomes_a_command_or_acts_on_a_terminal(command: str, *, is_terminal: bool, tmp_path: Path):
    files = hostile_files(tmp_path)
    name = HOSTILE[len(command) % len(HOSTILE)]
    for number, form in enumerate((*FORMS[command], f"{name} --{name}", f"--help {name}")):
        words = form.split(" ") if number < len(FORMS[command]) else form.split(" --", 1)
        arguments = [files.get(word, word.replace("NAME", name)) for word in words if word]
        if is_terminal:
            ended = run_on_terminal(command, *arguments, environment=INSIDE, cwd=tmp_path)
        else:
            ended = run(command, *arguments, environment=INSIDE, cwd=tmp_path)
        shown = ended.out.replace("\r\n", "\n") + "\n" + ended.err
        assert shown.strip(), arguments
        assert "Traceback" not in shown
        assert read_as_commands(shown) == [], arguments
        assert acting(shown) == [], arguments


@pytest.mark.parametrize("system", ["GITHUB_ACTIONS", "TF_BUILD", "TEAMCITY_VERSION", "BUILDKITE", "CI"])
def test_commands_are_broken_in_each_system(system: str, monkeypatch: pytest.MonkeyPatch):
    for name in INSIDE:
        monkeypatch.delenv(name, raising=False)
    assert without_commands("##[a]") == "##[a]"
    monkeypatch.setenv(system, "true")
    assert read_as_commands(without_commands("\n".join((*HOSTILE, "\x1b[1m::a::b\x1b[0m")))) == []


def test_no_name_becomes_a_command_where_letters_are_ascii(tmp_path: Path):
    name = f"{HOSTILE[0]}\u00e9"
    ended = run(
        "check", "--calls", recorded(tmp_path, name), environment={**INSIDE, "LC_ALL": "C", "PYTHONIOENCODING": "ascii"}
    )
    assert read_as_commands(ended.out) == []
    assert ":set-output name=a::b\\xe9" in ended.out


def test_values_in_json_stay_what_they_are(tmp_path: Path):
    file = recorded(tmp_path, *HOSTILE)
    for view in ("--firings", "--calls", "--failed"):
        inside, outside = (
            [json.loads(line) for line in run("check", view, "--json", file, environment=environment).out.splitlines()]
            for environment in ({"GITHUB_ACTIONS": "true"}, OUTSIDE)
        )
        assert inside == outside
        assert inside


def test_annotations_are_still_commands(tmp_path: Path):
    file = recorded(tmp_path, HOSTILE[0])
    ended = run("check", file, environment={"GITHUB_ACTIONS": "true"})
    assert OURS.search(ended.err)
    assert read_as_commands(ended.err) == []
