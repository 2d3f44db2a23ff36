"""Tools on offer are read once, however many model calls repeat them, and what is remembered is bounded."""

import json

from toolgauge.recognize.definitions import DefinitionReader


def offer(description: str) -> str:
    return json.dumps([{"name": "look", "description": description}])


def test_flattened_tools_are_one_object_in_all_spans_that_repeat_them_and_another_where_one_of_them_differs():
    reader = DefinitionReader()
    tools = {"llm.tools.0.tool.json_schema": offer("by name"), "llm.tools.1.tool.name": "stop"}
    first = reader.flattened({**tools, "llm.model_name": "small"})
    assert [tool.name for tool in first] == ["look", "stop"]
    assert reader.flattened({**tools, "llm.model_name": "large"}) is first
    assert [tool.name for tool in reader.flattened({**tools, "llm.tools.1.tool.name": "halt"})] == ["look", "halt"]


def test_what_is_too_long_to_be_remembered_is_read_all_the_same():
    reader = DefinitionReader()
    first = reader.read(offer("x" * 2_000_000))
    again = reader.read(offer("x" * 2_000_000))
    assert again == first
    assert again is not first


def test_the_oldest_are_forgotten_when_all_together_are_too_long():
    reader = DefinitionReader()
    offers = [offer(letter * 900_000) for letter in "abcd"]
    read = [reader.read(each) for each in offers]
    assert [reader.read(each) is one for each, one in zip(offers[2:], read[2:], strict=True)] == [True] * 2
    assert reader.read(offers[0]) is not read[0]
