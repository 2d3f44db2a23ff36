"""Two definitions of one tool: the same in another spelling, or changed at a place."""

from tests.rows import each_row
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.observations import ToolDefinition
from toolgauge.watch.schema_changes import Difference, Words, canonical, difference

CITY: JsonObject = {"type": "string", "description": "A city."}
UNIT: JsonObject = {"type": "string", "enum": ["C", "F"]}
WEATHER: JsonObject = {"type": "object", "properties": {"city": CITY, "unit": UNIT}, "required": ["city"]}


def of(schema: JsonObject | None, description: str | None = None) -> tuple[JsonObject | None, Words]:
    return canonical(ToolDefinition(name="weather", description=description, parameters=schema))


def change(old: JsonObject | None, new: JsonObject | None) -> Difference | None:
    return difference(of(old), of(new))


def one(schema: Json) -> JsonObject:
    return {"type": "object", "properties": {"x": schema}}


@each_row(
    ("schema", "same"),
    [
        (WEATHER, {"required": ["city"], "properties": {"unit": UNIT, "city": CITY}, "type": "object"}),
        (WEATHER, {**WEATHER, "title": "W", "$schema": "s", "default": {}}),
        (one(UNIT), one({**UNIT, "enum": ["F", "C"]})),
        (one({"type": ["string"]}), one({"type": "string"})),
        (one({"items": {"type": ["string"]}}), one({"items": {"type": "string", "title": "I"}})),
        ({"properties": {"title": CITY}}, {"properties": {"title": {**CITY, "title": "T"}}}),
    ],
)
def test_another_spelling_is_no_change(schema: JsonObject, same: JsonObject) -> None:
    assert of(schema)[0] == of(same)[0]
    assert change(schema, same) is None


@each_row(
    ("old", "new", "place"),
    [
        (one({"minLength": 1}), one({"minLength": 2}), "properties.x"),
        (one({"items": UNIT}), one({"items": {"enum": ["C"]}}), "properties.x"),
        (one(one(UNIT)), one(one(CITY)), "properties.x"),
        (one({"anyOf": [UNIT, {"type": "null"}]}), one({"anyOf": [CITY, {"type": "null"}]}), "properties.x"),
        (WEATHER, {**WEATHER, "additionalProperties": False}, "additionalProperties"),
        (WEATHER, {**WEATHER, "$defs": {"U": {"enum": ["C"]}}}, "$defs"),
        (one({"type": "string"}), one({"type": "string", "nullable": True}), "properties.x"),
    ],
)
def test_a_difference_elsewhere_is_a_change_of_unknown_effect(old: JsonObject, new: JsonObject, place: str) -> None:
    for before, after in ((old, new), (new, old)):
        assert change(before, after) == ("changed", f"$.parameters.{place}")


def test_the_gravest_of_several_changes_is_named() -> None:
    other: JsonObject = {"properties": {"a": {}, "city": {"type": "integer"}, "unit": UNIT}}
    assert change(WEATHER, other) == ("breaking", "$.parameters.properties.city.type")
    more: JsonObject = {"properties": {"a": {}, "city": {**CITY, "minLength": 1}, "unit": UNIT}, "required": ["city"]}
    assert change(WEATHER, more) == ("changed", "$.parameters.properties.city")


def test_words_are_compared_where_both_sides_have_them() -> None:
    assert difference(of(WEATHER, "Find it."), of(WEATHER, " Find\nit. ")) is None
    assert difference(of(WEATHER, "Find it."), of(WEATHER)) is None
    assert difference(of(WEATHER, "Find it."), of(WEATHER, "Find...")) is None
    assert difference(of(WEATHER, "Find it."), of(WEATHER, "Find all.")) == ("wording", "$.description")
    other: JsonObject = {**WEATHER, "properties": {"city": {**CITY, "description": "A town."}, "unit": UNIT}}
    assert change(WEATHER, other) == ("wording", "$.parameters.properties.city.description")


def test_a_schema_that_was_not_recorded_is_no_change_and_any_value_is_compared() -> None:
    assert change(WEATHER, None) is change(None, WEATHER) is None
    deep: JsonObject = {}
    for _ in range(900):
        deep = {"items": deep}
    odd: JsonObject = {
        "type": [{}],
        "enum": {"a": 10**400},
        "required": {"b": 2},
        "properties": {"x": 5, "y": {"type": {}}},
    }
    assert all(change(hostile, WEATHER) is not None for hostile in (deep, odd))
    assert change({"enum": [float("inf"), 10**400]}, WEATHER) is not None
