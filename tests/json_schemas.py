"""Validators of JSON Schema. `jsonschema` takes a second to load, so the first test that needs one loads it."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, Protocol


class Problem(Protocol):
    """What a schema refuses, and where."""

    json_path: str
    message: str


class Validator(Protocol):
    """The methods of a validator that tests use."""

    def check_schema(self, schema: Mapping[str, Any]) -> None: ...

    def is_valid(self, instance: object) -> bool: ...

    def iter_errors(self, instance: object) -> Iterator[Problem]: ...


def validator(schema: Mapping[str, Any], *, draft: str = "Draft202012Validator") -> Validator:
    """Return the validator of a schema."""
    return getattr(import_module("jsonschema"), draft)(schema)
