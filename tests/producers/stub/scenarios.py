"""The scenarios that a scripted model plays: what users ask, which calls the model makes, and what each call returns.

A script is chosen by the user's text, so that a sub-agent's model has a script of its own: its text is the argument of the
call that starts it. Names of hand-off and sub-agent tools differ between frameworks, so `scenario()` takes them.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
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


def _fetch(report: str, result: Any = None, error: tuple[str, str] | None = None) -> Call:
    return Call(name="fetch_report", arguments={"report_id": report}, result=result, error=error)


def _find(customer: str) -> Call:
    return Call(name="find_customer", arguments={"email": "zoe@example.com"}, result={"customer_id": customer})


def _list(customer: str, order: str) -> Call:
    orders = {"orders": [{"order_id": order, "amount": 59.9}]}
    return Call(name="list_orders", arguments={"customer_id": customer}, result=orders)


def _refund(order: str, refund: str) -> Call:
    arguments = {"order_id": order, "amount": 59.9, "reason": "arrived broken"}
    return Call(name="refund_order", arguments=arguments, result={"refund_id": refund, "state": "done"})


def _run(name: str, text: str, *steps: Sequence[Call], final: str, **options: Any) -> Scenario:
    """Make a scenario of one run of one agent."""
    script = Script(text=text, steps=tuple(tuple(step) for step in steps), final=final)
    return Scenario(name=name, runs=(script,), **options)


def _sequence(name: str, **options: Any) -> Scenario:
    calls = _find("C-714"), _list("C-714", "A-1009"), _refund("A-1009", "R-77")
    text = "Refund the last order of zoe@example.com."
    return _run(name, text, *([call] for call in calls), final="Refund R-77 is done.", **options)


def _parallel(name: str, **options: Any) -> Scenario:
    calls = (_weather("København", 11.5), _weather("東京", 24.0), _weather("Lima", 65.5, "fahrenheit"))
    return _run(name, "Weather in København, 東京 and Lima?", calls, final="11.5, 24 and 65.5.", **options)


def _plain() -> Iterator[Scenario]:
    """Make the scenarios in which models and tools do as they should, or tools fail."""
    yield _run("one_call", "What is the weather in Paris?", [_weather("Paris", 21.5)], final="21.5 degrees.")
    yield _sequence("sequence3")
    yield _parallel("parallel")
    denied = ("PermissionError", "permission denied: /etc/shadow")
    delete = Call(name="delete_file", arguments={"path": "/etc/shadow"}, error=denied)
    yield _run("tool_error", "Delete /etc/shadow.", [delete], final="I could not delete it.")
    slow = _fetch("2026-Q1", error=("TimeoutError", "the archive did not answer"))
    yield _run(
        "mixed_error",
        "Fetch the reports of the first two quarters.",
        [slow, _fetch("2026-Q2", {"pages": 12})],
        [_weather("Turin", 18.5)],
        final="The first one could not be fetched.",
        note="two calls of one turn, the first fails",
    )
    reset = _fetch("2026-Q3", error=("ConnectionError", "connection reset by peer"))
    grew = "Revenue grew by 4 %."
    yield _run("retry", "Fetch the report 2026-Q3.", [reset], [_fetch("2026-Q3", grew)], final=grew)
    event = {
        "title": 'Übergabe "Nord"',
        "when": {"date": "2026-11-30", "minutes": 45},
        "attendees": [{"name": "Zoë", "email": "zoe@example.com"}, {"name": "李雷", "email": "li@example.com"}],
        "notes": "first line\nsecond line 🚀",
        "private": False,
    }
    made = {"event_id": "E-5", "links": {"calendar": "https://calendar.example.com/E-5"}}
    plan = Call(name="create_event", arguments=event, result=made)
    yield _run("nested", "Plan the handover with Zoë and 李雷.", [plan], final="Event E-5 is planned.")
    first = Script(text="Weather in Oslo?", steps=((_weather("Oslo", 3.5),),), final="3.5 degrees in Oslo.")
    second = Script(text="And what about Rome?", steps=((_weather("Rome", 17.0),),), final="17 degrees in Rome.")
    yield Scenario(name="multi_turn", runs=(first, second), conversation_id="conv-zoë-42")


def _agents(names: Names) -> Iterator[Scenario]:
    """Make the scenarios of several agents."""
    asked, told = "Search a flight from OSL to FCO", "DY1872 for 129."
    flight = {"flight": "DY1872", "price": 129}
    inner = Call(name="search_flights", arguments={"origin": "OSL", "destination": "FCO"}, result=flight)
    argument = {names.subagent_argument: asked}
    outer = Call(name=names.subagent, arguments=argument, result=told, kind="agent_as_tool")
    coordinator = Script(
        text="I need to get from Oslo to Rome.",
        steps=((outer,), (_weather("Rome", 17.0),)),
        final="Take DY1872; it has 17 degrees in Rome.",
        agents=("coordinator",),
    )
    below = Script(text=asked, steps=((inner,),), final=told, agents=("flight_agent",))
    yield Scenario(name="subagent", runs=(coordinator,), below=(below,))
    over = Call(name=names.handoff, arguments=names.handoff_arguments, kind="handoff")
    refund = Call(name="refund_order", arguments={"order_id": "A-1009", "amount": 59.9}, result={"refund_id": "R-78"})
    triage = Script(
        text="I want my money back for order A-1009.",
        steps=((over,), (refund,)),
        final="Refund R-78 is on its way.",
        agents=("triage_agent", "refund_agent", "refund_agent"),
    )
    yield Scenario(name="handoff", runs=(triage,))


def _broken(names: Names) -> Iterator[Scenario]:
    """Make the scenarios of calls that cannot run, and those of coding agents, streams and hidden content."""
    lima, final = [_weather("Lima", 18.25)], "18.25 degrees in Lima."
    forecast = Call(name="get_forecast", arguments={"town": "Lima"})
    yield _run("unknown_tool", "Will it rain in Lima?", [forecast], lima, final=final, tools=("get_weather",))
    wrong = Call(name="get_weather", arguments={"town": "Lima"})
    note = "the first call breaks the schema; the model corrects it"
    yield _run("bad_args", "Weather in Lima, please.", [wrong], lima, final=final, note=note)
    cut = Call(name="get_weather", arguments='{"city": "Quito", "unit": "fah')
    asked, quito = "What about the weather in Quito?", [_weather("Quito", 14.5)]
    note = "the arguments of the first call break off"
    yield _run("bad_json", asked, [cut], quito, final="14.5 degrees in Quito.", note=note)
    result, failure = names.read_results
    found, missing = (Call(name=names.read_tool, arguments=one, is_own=True) for one in names.read_arguments)
    lost = (
        replace(missing, error=("FileNotFoundError", failure)) if names.read_fails else replace(missing, result=failure)
    )
    asked, final, note = (
        "Sum up notes.txt and missing.txt.",
        "There is only notes.txt.",
        "tools of the coding agent itself",
    )
    yield _run("coding", asked, [replace(found, result=result)], [lost], [forecast], final=final, note=note)
    yield _run("no_tool", "Say hello.", final="Hello!", tools=("get_weather",))
    yield _sequence("stream", stream=True)
    yield _parallel("stream_parallel", stream=True)
    yield _sequence("content_off", content=False)


def _conformance() -> Scenario:
    """Make the scenario that maintainers of producers record."""
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


def _faulty() -> Iterator[Scenario]:
    """Make the scenarios of faults that no span marks, and one without a fault."""
    order = "A-100932"
    find, orders, refund = _find("C-71460"), _list("C-71460", order), _refund(order, "RF-40417")
    failed = replace(orders, result={"error": "customer not found"})
    told = "Your order A-200417 of 59.90 was delivered on Monday."
    scenarios: list[tuple[str, list[Call], str, str]] = [
        (
            "paid_twice",
            [orders, refund, _refund(order, "RF-40418")],
            "Refund RF-40418 is done.",
            "one refund is made twice",
        ),
        ("told_error", [failed], told, "a result reports an error, once, and the answer does not"),
        ("claimed", [orders], "Done! I have refunded your order.", "the answer tells of a refund that no call made"),
        (
            "invented_id",
            [orders, refund],
            "Your refund RF-58830 is on its way.",
            "no tool returned the id in the answer",
        ),
        ("empty_answer", [orders, refund], "", "the answer is empty"),
        ("good_answer", [orders, refund], f"Your refund RF-40417 for order {order} is done.", "without a fault"),
    ]
    text, tools = (
        "My order arrived broken, refund it. I am zoe@example.com.",
        ("find_customer", "list_orders", "refund_order"),
    )
    for name, calls, final, note in scenarios:
        yield _run(name, text, *([call] for call in (find, *calls)), final=final, tools=tools, note=note)


def _all(names: Names) -> dict[str, Scenario]:
    made = (*_plain(), *_agents(names), *_broken(names), _conformance(), *_faulty())
    return {one.name: one for one in made}


SCENARIOS = tuple(_all(Names()))


def scenario(name: str, names: Names) -> Scenario:
    """Make the scenario of this name, with the framework's names of hand-offs and sub-agents in it."""
    made = replace(_all(names)[name], control=names.control)
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
