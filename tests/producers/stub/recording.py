"""One scenario under way: what the model asked for, which tools ran, and what the producer exported."""

import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.producers.stub.answers import Answer, MadeCall, Model
from tests.producers.stub.scenarios import Call, Names, Scenario, own_name, scenario, tools_of


@dataclass(kw_only=True)
class Asking:
    """A call that the model asked for, and what became of it."""

    run: int
    turn: int
    agent: str
    made: MadeCall
    executed: bool = False
    ran_with: Any = None


@dataclass(kw_only=True)
class Recording:
    """All that happened since the scenario began."""

    producer: str
    scenario: Scenario
    model: Model
    versions: Mapping[str, str]
    convention: str | None
    note: str | None
    calls: list[Asking] = field(default_factory=list[Asking])
    # When each run began, by the clock of the spans.
    run_starts: list[int] = field(default_factory=list[int])
    # What each run raised, by its number.
    run_errors: dict[int, str] = field(default_factory=dict[int, str])
    # Signal and body of each export, in order of arrival.
    exports: list[tuple[str, bytes]] = field(default_factory=list[tuple[str, bytes]])
    last_export: float = 0.0
    _served: set[tuple[str, int]] = field(default_factory=set[tuple[str, int]])

    def start_run(self) -> None:
        """Note that the application starts its next run."""
        self.run_starts.append(time.time_ns())

    def fail_run(self, error: str) -> None:
        """Note that the run under way raised."""
        self.run_errors[max(0, len(self.run_starts) - 1)] = error

    def serve(self, answer: Answer) -> None:
        """Note the calls of an answer; the same answer may be asked for twice."""
        script = answer.script
        if script is None or (script.text, answer.step) in self._served or not answer.calls:
            return
        self._served.add((script.text, answer.step))
        agent = script.agents[min(answer.step, len(script.agents) - 1)]
        run = max(0, len(self.run_starts) - 1)
        turn = len(self._served) - 1
        self.calls += [Asking(run=run, turn=turn, agent=agent, made=made) for made in answer.calls]

    def execute(self, name: str, arguments: Any) -> dict[str, Any]:
        """Run a tool: the first call of this name that has not run yet, one with these arguments before others."""
        waiting = [one for one in self.calls if own_name(one.made.call.name) == name and not one.executed]
        if not waiting:
            return {"error": {"type": "LookupError", "message": f"no call of {name} in the script"}}
        exact = [one for one in waiting if one.made.call.arguments == arguments]
        chosen = (exact or [one for one in waiting if _runs(one.made.call)] or waiting)[0]
        chosen.executed, chosen.ran_with = True, arguments
        return outcome(chosen.made.call)

    def export(self, signal: str, body: bytes) -> None:
        """Keep an export of the producer."""
        self.exports.append((signal, body))
        self.last_export = time.monotonic()

    def wait(self, quiet: float, longest: float) -> None:
        """Wait until nothing was exported for a while."""
        began = time.monotonic()
        while time.monotonic() - max(began, self.last_export) < quiet and time.monotonic() - began < longest:
            time.sleep(0.02)


def _runs(call: Call) -> bool:
    return call.result is not None or call.error is not None


def outcome(call: Call) -> dict[str, Any]:
    """Return what a tool gives back: a result, or type and message of an error."""
    if call.error:
        return {"error": {"type": call.error[0], "message": call.error[1]}}
    return {"result": call.result if call.result is not None else {"ok": True}}


def begin(wanted: Mapping[str, Any]) -> Recording:
    """Begin the scenario that an application names."""
    names = Names(**wanted.get("names", {}))
    one = scenario(wanted["scenario"], names)
    if not re.fullmatch(r"[a-z0-9][a-z0-9_.-]*", wanted["producer"]):
        raise ValueError("a producer is a folder's name")
    return Recording(
        producer=wanted["producer"],
        scenario=one,
        model=Model(wanted["producer"], one),
        versions=wanted.get("versions", {}),
        convention=wanted.get("convention"),
        note=wanted.get("note") or one.note,
    )


def description(one: Scenario) -> dict[str, Any]:
    """Return what an application has to know of a scenario to run it."""
    return {
        "name": one.name,
        "runs": [{"text": script.text} for script in one.runs],
        "tools": [
            {"name": name, "description": text, "parameters": schema} for name, (text, schema) in tools_of(one).items()
        ],
        "conversation_id": one.conversation_id,
        "stream": one.stream,
        "content": one.content,
        "calls": json.loads(json.dumps([_called(call) for call in _calls(one)])),
    }


def _calls(one: Scenario) -> list[Call]:
    return [call for script in (*one.runs, *one.below) for step in script.steps for call in step]


def _called(call: Call) -> dict[str, Any]:
    return {"name": call.name, "kind": call.kind}
