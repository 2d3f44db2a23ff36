"""From spans to the events of changed tools."""

from tests.walk.shapes import chat, request, run
from tests.walk.support import Walk
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.regressions import ToolDefinitionChange


def offering(number: int, version: str, *required: str, written: str = "parameters") -> bytes:
    """Return the spans of a run of an agent that is offered one tool, and does not call it."""
    schema: JsonObject = {"type": "object", "properties": {"id": {"type": "string"}}, "required": [*required]}
    offer: Json = {"type": "function", "name": "find_order", "description": "Find.", written: schema}
    spans = run(trace=f"t{number}"), chat(tools=[offer], trace=f"t{number}")
    return request(*spans, version=version).SerializeToString()


def test_a_changed_schema_is_found_in_spans() -> None:
    walk = Walk()
    changes: list[ToolDefinitionChange] = []
    assert walk.watcher is not None
    walk.watcher.on_tool_changes = lambda found, _capped: changes.extend(found)
    for number, body in enumerate(
        (
            offering(1, "1.0"),
            offering(2, "1.0", written="inputSchema"),
            offering(3, "1.1", "id"),
            offering(4, "1.0"),
            offering(5, "1.1", "id"),
        )
    ):
        walk.send(body)
        walk.wait(60 + number)
    assert [(one.kind, one.service, one.agent, one.version, one.tool, one.path) for one in changes] == [
        ("breaking", "shop", "a", "1.1", "find_order", "$.parameters.required.id")
    ]
