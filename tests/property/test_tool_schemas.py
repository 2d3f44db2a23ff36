"""Whatever the schema and the arguments are, the check agrees with `jsonschema`."""

from collections.abc import Mapping
from typing import TypeAlias, cast

from hypothesis import given
from hypothesis import strategies as st

from tests.json_schemas import validator
from tests.property.test_compare import VALUES
from toolgauge.model.errors import SchemaError
from toolgauge.model.json import Json, JsonObject
from toolgauge.score.tool_schemas import Steps, ToolSchema, valid_share

NAMES = st.sampled_from(["a", "b", "c"])
# Null is left out: for arguments that are not required ours takes it for one that was not given.
SINGLE: st.SearchStrategy[Json] = st.one_of(
    st.booleans(), st.integers(-3, 3), st.sampled_from([0.5, 1.0, -2.0]), st.text("xyz", max_size=3)
)
ARGUMENTS: st.SearchStrategy[Json] = st.recursive(
    SINGLE, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=8
)
TYPES = st.sampled_from(["string", "integer", "number", "boolean", "array", "object"])


# Lists are not covariant: one of texts is not one of values.
Strategies: TypeAlias = Mapping[str, st.SearchStrategy[object]]


def objects(required: Strategies, optional: Strategies) -> st.SearchStrategy[Json]:
    return cast("st.SearchStrategy[Json]", st.fixed_dictionaries({**required}, optional={**optional}))


def keywords(inner: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    by_name = st.dictionaries(NAMES, inner, min_size=1, max_size=3)
    several = st.lists(inner, min_size=1, max_size=2)
    known: Strategies = {
        "type": st.one_of(TYPES, st.lists(TYPES, min_size=1, max_size=2, unique=True)),
        "enum": st.lists(SINGLE, min_size=1, max_size=4),
        "const": ARGUMENTS,
        "minimum": st.integers(-2, 2),
        "exclusiveMaximum": st.integers(-2, 2),
        "minLength": st.integers(0, 2),
        "maxLength": st.integers(0, 2),
        "pattern": st.sampled_from(["^x", "y$", "z"]),
        "minItems": st.integers(0, 2),
        "uniqueItems": st.booleans(),
        "items": inner,
        "prefixItems": several,
        "contains": inner,
        "properties": by_name,
        "patternProperties": st.dictionaries(st.sampled_from(["^a", "b"]), inner, min_size=1, max_size=2),
        "propertyNames": inner,
        "required": st.lists(NAMES, max_size=2, unique=True),
        "dependentRequired": st.dictionaries(NAMES, st.lists(NAMES, max_size=2, unique=True), max_size=2),
        "maxProperties": st.integers(0, 2),
        "anyOf": several,
        "oneOf": several,
        "allOf": several,
        "not": inner,
        "if": inner,
        "then": inner,
        "else": inner,
    }
    plain = objects(
        {"type": st.just("object"), "properties": by_name}, optional={"additionalProperties": st.booleans()}
    )
    return objects({}, optional=known) | plain


SCHEMAS: st.SearchStrategy[Json] = st.recursive(
    objects({"type": TYPES}, optional={"enum": st.lists(SINGLE, min_size=1, max_size=3)}), keywords, max_leaves=6
)


@given(st.fixed_dictionaries({"properties": st.dictionaries(NAMES, SCHEMAS, max_size=3)}), st.data())
def test_arguments_are_valid_where_jsonschema_finds_them_valid(schema: JsonObject, drawn: st.DataObject):
    arguments = drawn.draw(st.dictionaries(NAMES, ARGUMENTS, max_size=3))
    read = ToolSchema(schema, "allow")
    found = read.violations(arguments, Steps(10**6))
    assert (not found) == validator(schema).is_valid(arguments)
    assert (valid_share(arguments, found) == 1.0) == (not found)


@given(st.dictionaries(st.text(max_size=3), VALUES, max_size=4), st.dictionaries(NAMES, VALUES, max_size=3))
def test_any_value_is_a_schema_or_none_and_nothing_else_is_raised(written: JsonObject, arguments: JsonObject):
    try:
        read = ToolSchema({"properties": {"a": written}, **written}, "fail")
        read.violations(arguments, Steps(10**4))
    except SchemaError:
        return
