"""Every definition of the recorded runs, with each kind of change planted at each place of it, and in other spellings."""

import random
from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from typing import cast
from zlib import crc32

import pytest

from tests.captures import sample
from tests.recovery_table import trajectories
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.observations import ToolDefinition
from toolgauge.model.tool_changes import ToolChangeKind
from toolgauge.model.trajectory import Trajectory
from toolgauge.watch.offers import Offer, contracts, offers
from toolgauge.watch.tool_contracts import RUNS_TO_DECIDE, ToolContracts

_INNER = ("items", "additionalProperties")
_SEVERAL = ("anyOf", "oneOf", "allOf")
_NAMED = ("properties", "$defs", "definitions")


@cache
def recorded() -> tuple[Trajectory, ...]:
    found = (trajectories(*captured.files()) for captured in sample().values())
    return tuple(one for of_producer in found for by_trace in of_producer.values() for one in by_trace)


def definitions() -> list[ToolDefinition]:
    tools = [tool for one in recorded() for run in one.runs for tool in run.tools_offered or ()]
    return [*{repr(tool): tool for tool in tools}.values()]


def schemas(schema: Json, place: str = "") -> Iterator[tuple[str, JsonObject]]:
    """Yield each schema in a schema, and where it is."""
    if not isinstance(schema, dict):
        return
    yield place, schema
    for key in _NAMED:
        for name, inner in cast("JsonObject", schema.get(key) or {}).items():
            yield from schemas(inner, f"{place}/{key}/{name}")
    for key in _INNER:
        yield from schemas(schema.get(key), f"{place}/{key}")
    for key in _SEVERAL:
        for number, inner in enumerate(cast("list[Json]", schema.get(key) or [])):
            yield from schemas(inner, f"{place}/{key}/{number}")


def planted(tool: ToolDefinition) -> Iterator[tuple[ToolChangeKind, str, ToolDefinition]]:
    """Yield each change that can be planted: its kind, its place, and the changed definition."""
    if tool.description:
        yield "wording", "description", ToolDefinition(name=tool.name, description="Other.", parameters=tool.parameters)
    for number, (place, schema) in enumerate(schemas(tool.parameters)):
        for kind, changed in changes(schema):
            copy = deepcopy(tool.parameters)
            [*schemas(copy)][number][1].update(changed)
            # Beside an alternative that is null, null is nothing new.
            if not (changed.get("type") == [schema.get("type"), "null"] and ("Of/" in place or "nullable" in schema)):
                what = f"{changed} at {place}"
                yield (
                    seen_as(kind, place, changed),
                    what,
                    ToolDefinition(name=tool.name, description=tool.description, parameters=copy),
                )


def seen_as(kind: ToolChangeKind, place: str, changed: JsonObject) -> ToolChangeKind:
    """Return as what a change is reported: only arguments, and their types and values, are compared in detail."""
    compared = ("properties", "required") if not place else ("type", "enum") if place.count("/") == 2 else ()
    is_of_argument = not place or place.startswith("/properties/")
    return kind if kind == "wording" or (is_of_argument and changed.keys() <= {*compared}) else "changed"


def changes(schema: JsonObject) -> Iterator[tuple[ToolChangeKind, JsonObject]]:
    """Yield each kind of change that can be planted in one schema, and what it sets there."""
    kind, values = schema.get("type"), cast("list[Json]", schema.get("enum") or [])
    if schema.get("description"):
        yield "wording", {"description": "Other."}
    if kind == "object":
        yield from _of_object(schema)
    if kind in ("string", "integer", "number", "boolean") and not values and "const" not in schema:
        yield "breaking", {"type": "string" if kind == "boolean" else "boolean"}
        yield "breaking", {"enum": [{"string": "a", "boolean": True}.get(kind, 1)]}
        yield "additive", {"type": [kind, "null"]}
    if kind == "string" and not values:
        yield "breaking", {"maxLength": 1}
    if kind in ("integer", "number"):
        yield "breaking", {"minimum": cast("int", schema.get("minimum", 0)) + 1}
        yield ("additive", {"type": "number"}) if kind == "integer" else ("breaking", {"type": "integer"})
    if kind == "array":
        yield "breaking", {"minItems": cast("int", schema.get("minItems", 0)) + 1}
    for value in values if len(values) > 1 else ():
        yield "breaking", {"enum": [one for one in values if one != value]}
    if values:
        yield "additive", {"enum": [*values, "planted"]}


def _of_object(schema: JsonObject) -> Iterator[tuple[ToolChangeKind, JsonObject]]:
    properties = cast("JsonObject", schema.get("properties") or {})
    required = cast("list[Json]", schema.get("required") or [])
    more: JsonObject = {"properties": {**properties, "planted": {"type": "string"}}}
    yield "breaking", {**more, "required": [*required, "planted"]}
    yield "additive", more
    if schema.get("additionalProperties") is False:
        yield "additive", {"additionalProperties": True}
    elif "additionalProperties" not in schema:
        yield "breaking", {"additionalProperties": False}
    for name in properties:
        yield "breaking", {"properties": {key: value for key, value in properties.items() if key != name}}
        if name in required:
            yield "additive", {"required": [one for one in required if one != name]}
        else:
            yield "breaking", {"required": [*required, name]}


def offer(*tools: ToolDefinition, version: str = "1") -> Offer:
    return Offer("shop", "", "orders", version, "", True, contracts(tools))


@pytest.mark.parametrize("version", ["1", "2"], ids=["in one version", "with a new version"])
def test_each_change_that_is_planted_in_a_definition_is_found(version: str) -> None:
    found: Counter[str] = Counter()
    missed: list[str] = []
    for tool in definitions():
        for kind, what, changed in planted(tool):
            watched = ToolContracts()
            watched.add(offer(tool), 1)
            watched.add(offer(changed, version=version), 2)
            kinds = [change.kind for change in watched.take()[0]]
            found[kind] += 1
            if kinds != [kind]:
                missed.append(f"{kind} {what} of {tool}: {kinds}")
    print(found)
    assert missed == []
    assert found["breaking"] > 1000
    assert found["additive"] > 300
    assert found["changed"] > 300
    assert found["wording"] > 200


def test_a_tool_that_is_gone_or_added_is_found() -> None:
    names = {tool.name: tool for tool in definitions()}
    tools = [*names.values()]
    for gone in tools:
        left = [tool for tool in tools if tool is not gone]
        watched = ToolContracts()
        watched.add(offer(*tools), 0)
        for number in range(RUNS_TO_DECIDE):
            assert watched.take() == ([], 0)
            watched.add(offer(*left, version="2"), number)
        (removed,), _ = watched.take()
        assert (removed.kind, removed.tool, removed.version) == ("removed", gone.name, "2")
        watched.add(offer(*tools, version="3"), 99)
        (added,), _ = watched.take()
        assert (added.kind, added.tool, added.version) == ("added", gone.name, "3")


def respelled(schema: Json, names: random.Random) -> Json:
    """Write a schema in another way that means the same."""
    if isinstance(schema, list):
        return [respelled(one, names) for one in schema]
    if not isinstance(schema, dict):
        return schema
    found: JsonObject = {}
    for key, value in names.sample([*schema.items()], len(schema)):
        if key in _NAMED and isinstance(value, dict):
            named = names.sample([*value.items()], len(value))
            found[key] = {name: respelled(inner, names) for name, inner in named}
        elif key in ("required", "enum") and isinstance(value, list):
            found[key] = names.sample(value, len(value))
        elif key == "type" and isinstance(value, str):
            found[key] = names.choice([value, [value]])
        elif key in ("title", "default", "description", "$schema"):
            if names.random() < 0.5:
                found[key] = value
        elif key in (*_SEVERAL, *_INNER):
            found[key] = respelled(value, names)
        else:
            found[key] = value
    return found


def test_no_change_is_found_between_spellings_of_one_definition() -> None:
    names = random.Random(7)  # noqa: S311 (spellings)
    for tool in definitions():
        watched = ToolContracts()
        watched.add(offer(tool), 0)
        for number in range(1, 9):
            schema = respelled(tool.parameters, names)
            description = names.choice([tool.description, None, f"  {tool.description or ''}\n"])
            again = ToolDefinition(
                name=tool.name,
                description=description,
                parameters=schema if isinstance(schema, dict) and number % 5 else None,
            )
            watched.add(offer(again, version=names.choice("123")), number)
            assert watched.take() == ([], 0), (tool, again)


def test_no_change_is_found_between_recordings_of_one_release_with_other_users() -> None:
    names = random.Random(35)  # noqa: S311 (users)
    watched = ToolContracts()
    found: list[object] = []
    recordings = [one for trajectory in recorded() for one in offers(trajectory)]
    by_agent = {(one.service, one.environment, one.agent, one.version): one for one in recordings}
    for users in (30, 30):
        for _ in range(users):
            # Each user has some of the tools.
            mine = names.sample(range(1000), 600)
            for whose, one in by_agent.items():
                for run in range(3):
                    tools = tuple(tool for tool in one.tools if crc32(tool.tool.encode()) % 1000 in mine) or one.tools
                    watched.add(Offer(*whose, f"{mine[0]}", True, tools), run)
        found += watched.take()[0]
    assert found == []
