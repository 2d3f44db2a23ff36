"""Names and values that are commands to CI systems or to terminals, in a recording, and what finds them in output."""

import json
import re
from pathlib import Path

HOSTILE = (
    "::set-output name=a::b",
    "##[set-output name=a]b",
    "x ##[add-path]b",
    "\n  ::stop-commands::b",
    "##vso[task.setvariable variable=a]b",
    "##teamcity[buildStatus status='SUCCESS']",
    "--- a group",
    "x\x1b]1339;url='http://a.invalid'\x07\x9b31m\u2028::error::a\u202e\u2066b\x7f",
    "\rsection_start:1764150000:a[collapsed=true]\r\x1b[0Kb",
)
OUTSIDE = {"GITHUB_ACTIONS": "", "CI": "", "TF_BUILD": "", "TEAMCITY_VERSION": ""}
# The words of the annotations that are ours.
OURS = re.compile(r"::(?:error|warning) (?:file=[^:]*,)?(?:line=\d+,)?title=")


INSIDE = dict.fromkeys((*OUTSIDE, "BUILDKITE"), "true")
# Our own colours and links, and the end of what a bar has drawn.
STYLES = re.compile(r"\x1b\[[0-9;]*m|\x1b\]8;;[^\x1b\x07]*\x1b\\\\|\r(?= *\r)| *\r(?! *\r)")
ACTING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def read_as_commands(log: str) -> list[str]:
    """Return the lines that a runner takes for commands: GitHub trims lines and looks for `::`, others look anywhere."""
    lines = re.split(r"[\r\n]", STYLES.sub("", log))
    return [
        line
        for line in lines
        if (re.match(r"\s*::.*::", line) and not OURS.match(line))
        or re.search(r"##\w*\[|section_(start|end):|^(---|\+\+\+|~~~) ", line)
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


def acting(shown: str) -> list[str]:
    """Return the control characters that are not ours."""
    return ACTING.findall(STYLES.sub("", shown.replace("\r\n", "\n")))
