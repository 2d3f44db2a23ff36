"""Names and values of a recording are no commands to the CI system that reads the log of a step."""

import json
import re
from pathlib import Path

import pytest

from tests.cli.command import run

HOSTILE = (
    "::set-output name=a::b",
    "##[set-output name=a]b",
    "x ##[add-path]b",
    "\n  ::stop-commands::b",
    "##vso[task.setvariable variable=a]b",
    "##teamcity[buildStatus status='SUCCESS']",
    "\rsection_start:1764150000:a[collapsed=true]\r\x1b[0Kb",
)
OUTSIDE = {"GITHUB_ACTIONS": "", "CI": "", "TF_BUILD": "", "TEAMCITY_VERSION": ""}
# The words of the annotations that are ours.
OURS = re.compile(r"::(?:error|warning) (?:file=[^:]*,)?(?:line=\d+,)?title=")


def read_as_commands(log: str) -> list[str]:
    """Return the lines that a runner takes for commands: GitHub trims lines and looks for `::`, others look anywhere."""
    lines = re.split(r"[\r\n]", log)
    return [
        line
        for line in lines
        if (re.match(r"\s*::.*::", line) and not OURS.match(line))
        or re.search(r"##\w*\[", line)
        or line.startswith("section_start:")
    ]


def recorded(folder: Path, *names: str) -> str:
    """Write a run for each name, which its service, agent, tool, argument, conversation and error have."""
    file = folder / "run.otlp.json"
    found = [run_named(name, number) for number, name in enumerate(names, 1)]
    file.write_text(json.dumps({"resourceSpans": found}) + "\n")
    return str(file)


def run_named(hostile: str, number: int) -> object:
    call = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": hostile, "gen_ai.agent.name": hostile}
    arguments = {"gen_ai.tool.call.arguments": json.dumps({hostile: hostile}), "error.type": hostile}
    agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": hostile, "gen_ai.conversation.id": hostile}

    def attributes(given: dict[str, str]) -> list[object]:
        return [{"key": key, "value": {"stringValue": value}} for key, value in given.items()]

    base = {"traceId": f"{number:032x}", "name": hostile}
    times = {"startTimeUnixNano": "1764150000000000000", "endTimeUnixNano": "1764150000500000000"}
    failed = {"status": {"code": 2, "message": hostile}}
    spans: list[object] = [
        {**base, **times, "spanId": "00000000000000a1", "attributes": attributes(agent)},
        {
            **base,
            **times,
            **failed,
            "spanId": "00000000000000a2",
            "parentSpanId": "00000000000000a1",
            "attributes": attributes({**call, **arguments}),
        },
    ]
    resource = {"attributes": attributes({"service.name": hostile, "service.version": hostile})}
    return {"resource": resource, "scopeSpans": [{"scope": {"name": hostile}, "spans": spans}]}


@pytest.mark.parametrize("system", ["GITHUB_ACTIONS", "TF_BUILD", "GITLAB_CI"])
def test_no_name_becomes_a_command(system: str, tmp_path: Path):
    file = recorded(tmp_path, *HOSTILE)
    for arguments in (
        ("replay", file),
        ("replay", "--json", file),
        ("inspect", file),
        ("inspect", "--json", file),
        ("doctor", file),
        ("explain", "default.tool_success", file),
        ("compare", file, file),
        ("learn", file),
        ("score", file),
        ("serve", "--set", f"receivers={{{json.dumps(HOSTILE[0])}: {{}}}}"),
    ):
        ended = run(*arguments, environment={system: "true", "CI": "true"})
        assert ended.out + ended.err, arguments
        assert read_as_commands(ended.out + "\n" + ended.err) == [], arguments


def test_values_in_json_stay_what_they_are(tmp_path: Path):
    file = recorded(tmp_path, *HOSTILE)
    for command in ("replay", "inspect"):
        inside, outside = (
            [json.loads(line) for line in run(command, "--json", file, environment=environment).out.splitlines()]
            for environment in ({"GITHUB_ACTIONS": "true"}, OUTSIDE)
        )
        assert inside == outside
        assert inside


def test_nothing_changes_outside_of_ci(tmp_path: Path):
    file = recorded(tmp_path, HOSTILE[1])
    ended = run("inspect", file, environment=OUTSIDE)
    assert HOSTILE[1] in ended.out


def test_annotations_are_still_commands(tmp_path: Path):
    file = recorded(tmp_path, HOSTILE[0])
    ended = run("replay", "--fail-on", "fail", file, environment={"GITHUB_ACTIONS": "true"})
    assert OURS.search(ended.err)
    assert read_as_commands(ended.err) == []
