"""The scenarios that a scripted model plays: what users ask, which calls the model makes, and what each call returns.

A script is chosen by the user's text, so that a sub-agent's model has a script of its own: its text is the argument of the
call that starts it. Names of hand-off and sub-agent tools differ between frameworks, so `scenario()` takes them.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

Kind = Literal["function", "handoff", "agent_as_tool"]


@dataclass(frozen=True, kw_only=True)
class Call:
    """One call of the script. `arguments` as text is JSON that the model breaks off; `error` is its type and message."""

    name: str
    arguments: Mapping[str, Any] | str
    result: Any = None
    error: tuple[str, str] | None = None
    kind: Kind = "function"
    # A tool that the producer brings itself: it does not run at the stub, and is taken to have run.
    is_own: bool = False


@dataclass(frozen=True, kw_only=True)
class Script:
    """What one agent's model answers to one text: its steps are lists of calls, then its last text."""

    text: str
    steps: tuple[tuple[Call, ...], ...]
    final: str
    # The agent of each step; the last one of them also writes the final text.
    agents: tuple[str, ...] = ("assistant",)


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """Runs one after another, each with its script, and the scripts of the agents below."""

    name: str
    runs: tuple[Script, ...]
    below: tuple[Script, ...] = ()
    tools: tuple[str, ...] = ()
    conversation_id: str | None = None
    stream: bool = False
    content: bool = True
    note: str | None = None
    control: Mapping[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class Names:
    """How a framework calls its hand-off tool and a sub-agent as a tool with its only argument."""

    handoff: str = "transfer_to_refund_agent"
    handoff_arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    subagent: str = "flight_agent"
    subagent_argument: str = "input"
    # What a framework puts before the names of all tools, up to a last `__` or `-`.
    prefix: str = ""
    # A tool of the framework itself that ends each run, with `name` and `arguments`; the argument `FINAL` is the final text.
    control: Mapping[str, Any] | None = None
    # A coding agent's tool that reads a file, and the arguments for one that exists and one that does not.
    read_tool: str = "read_file"
    read_arguments: Sequence[Mapping[str, Any]] = ({"file_path": "notes.txt"}, {"file_path": "missing.txt"})
    read_results: Sequence[Any] = ("hello notes", "File not found")
    # Whether the agent takes the second for a failure; one that runs commands has a result and its exit code.
    read_fails: bool = True


def _schema(required: str, **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {name: {"type": kind} if isinstance(kind, str) else kind for name, kind in properties.items()},
        "required": required.split(),
        "additionalProperties": False,
    }


TOOLS: dict[str, tuple[str, dict[str, Any]]] = {
    "get_weather": (
        "Weather of a city",
        _schema("city unit", city="string", unit={"type": "string", "enum": ["celsius", "fahrenheit"]}),
    ),
    "find_customer": ("Find a customer by e-mail", _schema("email", email="string")),
    "list_orders": ("Orders of a customer", _schema("customer_id", customer_id="string")),
    "refund_order": (
        "Refund an order",
        _schema("order_id amount", order_id="string", amount="number", reason="string"),
    ),
    "delete_file": ("Delete a file", _schema("path", path="string")),
    "fetch_report": ("Fetch a report", _schema("report_id", report_id="string")),
    "search_flights": ("Search flights", _schema("origin destination", origin="string", destination="string")),
    "create_event": (
        "Create a calendar event",
        _schema(
            "title when attendees",
            title="string",
            when=_schema("date minutes", date="string", minutes="integer"),
            attendees={"type": "array", "items": _schema("name email", name="string", email="string")},
            notes="string",
            private="boolean",
        ),
    ),
}


def _weather(city: str, temp: float, unit: str = "celsius") -> Call:
    return Call(name="get_weather", arguments={"city": city, "unit": unit}, result={"city": city, "temp": temp})


def _one_call(_: Names) -> Scenario:
    script = Script(text="What is the weather in Paris?", steps=((_weather("Paris", 21.5),),), final="21.5 degrees.")
    return Scenario(name="one_call", runs=(script,))


def _sequence(name: str = "sequence3", **options: Any) -> Scenario:
    steps = (
        (Call(name="find_customer", arguments={"email": "zoe@example.com"}, result={"customer_id": "C-714"}),),
        (
            Call(
                name="list_orders",
                arguments={"customer_id": "C-714"},
                result={"orders": [{"order_id": "A-1009", "amount": 59.9}]},
            ),
        ),
        (
            Call(
                name="refund_order",
                arguments={"order_id": "A-1009", "amount": 59.9, "reason": "arrived broken"},
                result={"refund_id": "R-77", "state": "done"},
            ),
        ),
    )
    script = Script(text="Refund the last order of zoe@example.com.", steps=steps, final="Refund R-77 is done.")
    return Scenario(name=name, runs=(script,), **options)


def _parallel(name: str = "parallel", **options: Any) -> Scenario:
    calls = (_weather("København", 11.5), _weather("東京", 24.0), _weather("Lima", 65.5, "fahrenheit"))
    script = Script(text="Weather in København, 東京 and Lima?", steps=(calls,), final="11.5, 24 and 65.5.")
    return Scenario(name=name, runs=(script,), **options)


def _tool_error(_: Names) -> Scenario:
    call = Call(
        name="delete_file",
        arguments={"path": "/etc/shadow"},
        error=("PermissionError", "permission denied: /etc/shadow"),
    )
    script = Script(text="Delete /etc/shadow.", steps=((call,),), final="I could not delete it.")
    return Scenario(name="tool_error", runs=(script,))


def _mixed_error(_: Names) -> Scenario:
    failed = Call(
        name="fetch_report",
        arguments={"report_id": "2026-Q1"},
        error=("TimeoutError", "the archive did not answer"),
    )
    script = Script(
        text="Fetch the reports of the first two quarters.",
        steps=(
            (
                failed,
                Call(name="fetch_report", arguments={"report_id": "2026-Q2"}, result={"pages": 12}),
            ),
            (_weather("Turin", 18.5),),
        ),
        final="The first one could not be fetched.",
    )
    return Scenario(name="mixed_error", runs=(script,), note="two calls of one turn, the first fails")


def _retry(_: Names) -> Scenario:
    arguments = {"report_id": "2026-Q3"}
    script = Script(
        text="Fetch the report 2026-Q3.",
        steps=(
            (Call(name="fetch_report", arguments=arguments, error=("ConnectionError", "connection reset by peer")),),
            (Call(name="fetch_report", arguments=arguments, result="Revenue grew by 4 %."),),
        ),
        final="Revenue grew by 4 %.",
    )
    return Scenario(name="retry", runs=(script,))


def _nested(_: Names) -> Scenario:
    call = Call(
        name="create_event",
        arguments={
            "title": 'Übergabe "Nord"',
            "when": {"date": "2026-11-30", "minutes": 45},
            "attendees": [
                {"name": "Zoë", "email": "zoe@example.com"},
                {"name": "李雷", "email": "li@example.com"},
            ],
            "notes": "first line\nsecond line 🚀",
            "private": False,
        },
        result={"event_id": "E-5", "links": {"calendar": "https://calendar.example.com/E-5"}},
    )
    script = Script(text="Plan the handover with Zoë and 李雷.", steps=((call,),), final="Event E-5 is planned.")
    return Scenario(name="nested", runs=(script,))


def _multi_turn(_: Names) -> Scenario:
    first = Script(text="Weather in Oslo?", steps=((_weather("Oslo", 3.5),),), final="3.5 degrees in Oslo.")
    second = Script(text="And what about Rome?", steps=((_weather("Rome", 17.0),),), final="17 degrees in Rome.")
    return Scenario(name="multi_turn", runs=(first, second), conversation_id="conv-zoë-42")


def _subagent(names: Names) -> Scenario:
    asked = "Search a flight from OSL to FCO"
    inner = Call(
        name="search_flights",
        arguments={"origin": "OSL", "destination": "FCO"},
        result={"flight": "DY1872", "price": 129},
    )
    outer = Call(
        name=names.subagent,
        arguments={names.subagent_argument: asked},
        result="DY1872 for 129.",
        kind="agent_as_tool",
    )
    return Scenario(
        name="subagent",
        runs=(
            Script(
                text="I need to get from Oslo to Rome.",
                steps=((outer,), (_weather("Rome", 17.0),)),
                final="Take DY1872; it has 17 degrees in Rome.",
                agents=("coordinator",),
            ),
        ),
        below=(Script(text=asked, steps=((inner,),), final="DY1872 for 129.", agents=("flight_agent",)),),
    )


def _handoff(names: Names) -> Scenario:
    over = Call(name=names.handoff, arguments=names.handoff_arguments, kind="handoff")
    refund = Call(name="refund_order", arguments={"order_id": "A-1009", "amount": 59.9}, result={"refund_id": "R-78"})
    script = Script(
        text="I want my money back for order A-1009.",
        steps=((over,), (refund,)),
        final="Refund R-78 is on its way.",
        agents=("triage_agent", "refund_agent", "refund_agent"),
    )
    return Scenario(name="handoff", runs=(script,))


def _unknown_tool(_: Names) -> Scenario:
    script = Script(
        text="Will it rain in Lima?",
        steps=((Call(name="get_forecast", arguments={"town": "Lima"}),), (_weather("Lima", 18.25),)),
        final="18.25 degrees in Lima.",
    )
    return Scenario(name="unknown_tool", runs=(script,), tools=("get_weather",))


def _bad_args(_: Names) -> Scenario:
    script = Script(
        text="Weather in Lima, please.",
        steps=((Call(name="get_weather", arguments={"town": "Lima"}),), (_weather("Lima", 18.25),)),
        final="18.25 degrees in Lima.",
    )
    return Scenario(name="bad_args", runs=(script,), note="the first call breaks the schema; the model corrects it")


def _bad_json(_: Names) -> Scenario:
    script = Script(
        text="What about the weather in Quito?",
        steps=((Call(name="get_weather", arguments='{"city": "Quito", "unit": "fah'),), (_weather("Quito", 14.5),)),
        final="14.5 degrees in Quito.",
    )
    return Scenario(name="bad_json", runs=(script,), note="the arguments of the first call break off")


def _coding(names: Names) -> Scenario:
    found, missing = names.read_arguments
    result, failure = names.read_results
    failed = Call(name=names.read_tool, arguments=missing, error=("FileNotFoundError", failure), is_own=True)
    answered = Call(name=names.read_tool, arguments=missing, result=failure, is_own=True)
    steps = (
        (Call(name=names.read_tool, arguments=found, result=result, is_own=True),),
        (failed if names.read_fails else answered,),
        (Call(name="get_forecast", arguments={"town": "Lima"}),),
    )
    script = Script(text="Sum up notes.txt and missing.txt.", steps=steps, final="There is only notes.txt.")
    return Scenario(name="coding", runs=(script,), note="tools of the coding agent itself")


def _no_tool(_: Names) -> Scenario:
    script = Script(text="Say hello.", steps=(), final="Hello!")
    return Scenario(name="no_tool", runs=(script,), tools=("get_weather",))


def _conformance(_: Names) -> Scenario:
    """Play the scenario that maintainers of producers record."""
    written = json.loads(Path(__file__).with_name("conformance.json").read_text())

    def call(made: Mapping[str, Any]) -> Call:
        error = made.get("error")
        raised = (error["type"], error["message"]) if error else None
        return Call(name=made["name"], arguments=made["arguments"], result=made.get("result"), error=raised)

    scripts = [
        Script(
            text=run["user_message"],
            steps=tuple(
                tuple(map(call, made)) for _, made in groupby(run["tool_calls"], key=lambda made: made["turn"])
            ),
            final=run["final_text"],
        )
        for run in written["traces"]
    ]
    return Scenario(name="conformance", runs=tuple(scripts), conversation_id=written["conversation_id"])


_FIND = Call(name="find_customer", arguments={"email": "zoe@example.com"}, result={"customer_id": "C-71460"})
_LIST = Call(
    name="list_orders",
    arguments={"customer_id": "C-71460"},
    result={"orders": [{"order_id": "A-100932", "amount": 59.9}]},
)


def _refund(refund_id: str) -> Call:
    arguments = {"order_id": "A-100932", "amount": 59.9, "reason": "arrived broken"}
    return Call(name="refund_order", arguments=arguments, result={"refund_id": refund_id, "state": "done"})


def _faulty(name: str, *calls: Call, final: str, note: str) -> Scenario:
    script = Script(
        text="My order arrived broken, refund it. I am zoe@example.com.",
        steps=tuple((call,) for call in calls),
        final=final,
    )
    return Scenario(name=name, runs=(script,), tools=("find_customer", "list_orders", "refund_order"), note=note)


def _paid_twice(_: Names) -> Scenario:
    calls = _FIND, _LIST, _refund("RF-40417"), _refund("RF-40418")
    return _faulty("paid_twice", *calls, final="Refund RF-40418 is done.", note="one refund is made twice")


def _told_error(_: Names) -> Scenario:
    failed = replace(_LIST, result={"error": "customer not found"})
    final = "Your order A-200417 of 59.90 was delivered on Monday."
    return _faulty(
        "told_error", _FIND, failed, final=final, note="a result reports an error, once, and the answer does not"
    )


def _claimed(_: Names) -> Scenario:
    final = "Done! I have refunded your order."
    return _faulty("claimed", _FIND, _LIST, final=final, note="the answer tells of a refund that no call made")


def _invented_id(_: Names) -> Scenario:
    final = "Your refund RF-58830 is on its way."
    return _faulty(
        "invented_id", _FIND, _LIST, _refund("RF-40417"), final=final, note="no tool returned the id in the answer"
    )


def _empty_answer(_: Names) -> Scenario:
    return _faulty("empty_answer", _FIND, _LIST, _refund("RF-40417"), final="", note="the answer is empty")


def _good_answer(_: Names) -> Scenario:
    final = "Your refund RF-40417 for order A-100932 is done."
    return _faulty("good_answer", _FIND, _LIST, _refund("RF-40417"), final=final, note="without a fault")


_MAKERS: dict[str, Callable[[Names], Scenario]] = {
    "one_call": _one_call,
    "sequence3": lambda _: _sequence(),
    "parallel": lambda _: _parallel(),
    "tool_error": _tool_error,
    "mixed_error": _mixed_error,
    "retry": _retry,
    "nested": _nested,
    "multi_turn": _multi_turn,
    "subagent": _subagent,
    "handoff": _handoff,
    "unknown_tool": _unknown_tool,
    "bad_args": _bad_args,
    "bad_json": _bad_json,
    "coding": _coding,
    "no_tool": _no_tool,
    "stream": lambda _: _sequence("stream", stream=True),
    "stream_parallel": lambda _: _parallel("stream_parallel", stream=True),
    "content_off": lambda _: _sequence("content_off", content=False),
    "conformance": _conformance,
    "paid_twice": _paid_twice,
    "told_error": _told_error,
    "claimed": _claimed,
    "invented_id": _invented_id,
    "empty_answer": _empty_answer,
    "good_answer": _good_answer,
}
SCENARIOS = tuple(_MAKERS)


def scenario(name: str, names: Names) -> Scenario:
    """Make the scenario of this name, with the framework's names of hand-offs and sub-agents in it."""
    made = replace(_MAKERS[name](names), control=names.control)
    return replace(made, runs=tuple(_prefixed(script, names.prefix) for script in made.runs)) if names.prefix else made


def own_name(name: str) -> str:
    """Return the name of a tool without the prefix that a framework puts before it."""
    return re.split("__|-", name)[-1]


def _prefixed(script: Script, prefix: str) -> Script:
    steps = tuple(tuple(replace(call, name=prefix + call.name) for call in step) for step in script.steps)
    return replace(script, steps=steps)


def tools_of(one: Scenario) -> dict[str, tuple[str, dict[str, Any]]]:
    """Return the tools that an application offers in it, with description and schema."""
    called = {own_name(call.name) for script in (*one.runs, *one.below) for step in script.steps for call in step}
    return {name: TOOLS[name] for name in TOOLS if name in called or name in one.tools}
