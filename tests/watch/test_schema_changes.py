"""Two definitions of one tool: the same in another spelling, or changed at a place."""

from time import process_time

from tests.rows import each_row
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.observations import ToolDefinition
from toolgauge.watch.schema_changes import Difference, canonical, difference

CITY: JsonObject = {"type": "string", "description": "A city."}
UNIT: JsonObject = {"type": "string", "enum": ["C", "F"]}
WEATHER: JsonObject = {"type": "object", "properties": {"city": CITY, "unit": UNIT}, "required": ["city"]}


def of(schema: JsonObject | None, description: str | None = None) -> tuple[JsonObject | None, dict[str, list[str]]]:
    return canonical(ToolDefinition(name="weather", description=description, parameters=schema))


def change(old: JsonObject | None, new: JsonObject | None) -> Difference | None:
    return difference(of(old), of(new))


def one(schema: Json) -> JsonObject:
    return {"type": "object", "properties": {"x": schema}}


@each_row(
    ("schema", "same"),
    [
        (WEATHER, {"required": ["city"], "properties": {"unit": UNIT, "city": CITY}, "type": "object"}),
        (WEATHER, {**WEATHER, "title": "W", "$schema": "s", "additionalProperties": True, "$defs": {}, "default": {}}),
        (WEATHER, {**WEATHER, "additionalProperties": {}}),
        (WEATHER, {"properties": WEATHER["properties"], "required": ["city", "city"]}),
        (one(UNIT), one({"enum": ["F", "C"]})),
        (one(UNIT), one({"$ref": "#/$defs/U"}) | {"$defs": {"U": UNIT}}),
        (one(UNIT), one({"allOf": [{"$ref": "#/definitions/A~1B"}]}) | {"definitions": {"A/B": UNIT}}),
        (one(UNIT), one({"anyOf": [{"const": "C"}, {"const": "F", "type": "string"}]})),
        (one({"const": "C"}), one({"enum": ["C"]})),
        (one({"type": ["string"]}), one({"type": "string"})),
        (one({"type": ["string", "null"]}), one({"anyOf": [{"type": "null"}, {"type": "string"}]})),
        (one({"type": ["string", "null"]}), one({"type": "STRING", "nullable": True})),
        (one({"type": ["array", "null"], "items": CITY}), one({"oneOf": [{"type": "array", "items": CITY}, {"type": "null"}]})),
        (one({"type": ["string", "integer"]}), one({"anyOf": [{"type": "integer"}, {"type": "string"}]})),
        (one({"type": "string", "minLength": 0}), one({"type": "string", "uniqueItems": False})),
        (one({"type": "number", "minimum": 1.0}), one({"type": ["number", "integer"], "minimum": 1})),
        (one({"enum": ["a", None]}), one({"enum": ["a"], "nullable": True})),
        (
            {"properties": {"next": {"$ref": "#"}}, "required": ["next"]},
            {"$ref": "#/$defs/N", "$defs": {"N": {"properties": {"next": {"$ref": "#/$defs/N"}}, "required": ["next"]}}},
        ),
    ],
)  # fmt: skip
def test_another_spelling_is_no_change(schema: JsonObject, same: JsonObject) -> None:
    assert of(schema)[0] == of(same)[0]
    assert change(schema, same) is None


def text(**limits: Json) -> JsonObject:
    return one({"type": "string", **limits})


@each_row(
    ("narrow", "wide", "place"),
    [
        ({**WEATHER, "required": ["city", "unit"]}, WEATHER, "required.unit"),
        (one({"type": "integer"}), one({"type": "number"}), "properties.x.type"),
        (one({"type": "string"}), one({"type": ["string", "null"]}), "properties.x.type"),
        (one({"type": "string"}), one({}), "properties.x.type"),
        (one({"enum": ["C"]}), one(UNIT), "properties.x.enum"),
        (one(UNIT), one({"type": "string"}), "properties.x.enum"),
        (text(minLength=2), text(minLength=1), "properties.x.minLength"),
        (text(maxLength=4), text(maxLength=5), "properties.x.maxLength"),
        (text(maxLength=4), text(), "properties.x.maxLength"),
        (text(pattern="a+"), text(), "properties.x.pattern"),
        (one({"type": "array", "items": UNIT}), one({"type": "array"}), "properties.x.items.enum"),
        (one({"type": "array", "uniqueItems": True}), one({"type": "array"}), "properties.x.uniqueItems"),
        (one(one({"type": "string"})), one(one({"type": ["string", "integer"]})), "properties.x.properties.x.type"),
        ({**WEATHER, "additionalProperties": False}, WEATHER, "additionalProperties"),
        (one({"not": {"type": "null"}}), one({}), "properties.x.not"),
        (one({"dependentSchemas": {"x": UNIT}}), one({}), "properties.x.dependentSchemas"),
    ],
)
def test_a_narrower_schema_is_breaking_and_a_wider_one_additive(
    narrow: JsonObject, wide: JsonObject, place: str
) -> None:
    assert change(wide, narrow) == ("breaking", f"$.parameters.{place}")
    kind, at = change(narrow, wide) or ("", "")
    assert kind == "additive"
    place = place.removesuffix(".enum").removesuffix(".items")
    assert at.startswith(f"$.parameters.{place}")


def test_an_argument_that_is_gone_is_breaking_and_an_optional_one_additive() -> None:
    less: JsonObject = {**WEATHER, "properties": {"city": CITY}}
    assert change(WEATHER, less) == ("breaking", "$.parameters.properties.unit")
    assert change(less, WEATHER) == ("additive", "$.parameters.properties.unit")


def test_where_one_change_is_breaking_it_is_the_one_that_is_named() -> None:
    other: JsonObject = {"properties": {"a": {}, "city": {"type": "integer"}, "unit": UNIT}}
    assert change(WEATHER, other) == ("breaking", "$.parameters.properties.city.type")


def test_alternatives_that_differ_are_breaking() -> None:
    old, new = one({"anyOf": [{"type": "array"}, one(UNIT)]}), one({"anyOf": [{"type": "array"}, one({"const": "C"})]})
    assert change(old, new) == ("breaking", "$.parameters.properties.x.anyOf")
    assert change(one({"anyOf": [UNIT, one(CITY)]}), one({})) == ("additive", "$.parameters.properties.x.anyOf")


def test_a_recursive_schema_is_compared_once() -> None:
    def tree(value: JsonObject) -> JsonObject:
        node: JsonObject = {"type": "object", "properties": {"value": value, "left": {"$ref": "#/$defs/N"}}}
        return {**one({"$ref": "#/$defs/N"}), "$defs": {"N": node}}

    assert change(tree({"type": "string"}), tree({"type": "string", "title": "V"})) is None
    assert change(tree({}), tree({"type": "string"})) == (
        "breaking",
        "$.parameters.properties.x.properties.value.type",
    )


def test_a_recursive_schema_may_be_written_with_its_first_level_inside() -> None:
    node: JsonObject = {"type": "object", "properties": {"left": {"type": "array", "items": {"$ref": "#/$defs/N"}}}}
    assert change({"$ref": "#/$defs/N", "$defs": {"N": node}}, {**node, "$defs": {"N": node}}) is None


def test_words_are_compared_where_both_sides_have_them() -> None:
    assert difference(of(WEATHER, "Find it."), of(WEATHER, " Find\nit. ")) is None
    assert difference(of(WEATHER, "Find it."), of(WEATHER)) is None
    assert difference(of(WEATHER, "Find it."), of(WEATHER, "Find...")) is None
    assert difference(of(WEATHER, "Find it."), of(WEATHER, "Find all.")) == ("wording", "$.description")
    other: JsonObject = {**WEATHER, "properties": {"city": {**CITY, "description": "A town."}, "unit": UNIT}}
    assert change(WEATHER, other) == ("wording", "$.parameters.properties.city.description")


def test_a_schema_that_was_not_recorded_is_no_change() -> None:
    assert change(WEATHER, None) is None
    assert change(None, WEATHER) is None


def test_hostile_schemas_take_bounded_time() -> None:
    deep: JsonObject = {}
    for _ in range(90):
        deep = {"anyOf": [{"items": deep}, {"properties": {"a": deep}}]}
    doubled: JsonObject = {f"d{n}": {"properties": {"a": {"$ref": f"#/$defs/d{n + 1}"}, "b": {"$ref": f"#/$defs/d{n + 1}"}}} for n in range(60)}  # fmt: skip
    many: JsonObject = {"anyOf": [one({"anyOf": [one({"minimum": n + m}) for m in range(30)]}) for n in range(30)]}
    other: JsonObject = {"anyOf": [one({"anyOf": [one({"minimum": n + m}) for m in range(30)]}) for n in range(99, 70, -1)]}  # fmt: skip
    looped: JsonObject = {"a": {"$ref": "#/a"}, "$ref": "#/a"}
    exponential: JsonObject = {"$ref": "#/$defs/d0", "$defs": doubled}
    for schema in (deep, exponential, looped):
        of(schema)
    kind, _ = change(many, other) or ("", "")
    assert kind == "breaking"
    assert change({"enum": [float("inf"), 1e999, 10**400]}, {"type": "string", "minimum": 10**400}) is not None


def test_thousands_of_parts_and_long_lists_of_values_take_less_than_a_second() -> None:
    parts: JsonObject = {"allOf": [{"required": [f"p{n}"]} for n in range(2500)]}
    old, new = (
        one({"anyOf": [{"enum": [f"v{m}" for m in range(120)], "minLength": n + least} for n in range(70)]})
        for least in (1, 200)
    )
    before = process_time()
    of(parts)
    assert change(old, new) == ("breaking", "$.parameters.properties.x.anyOf")
    assert process_time() - before < 1
