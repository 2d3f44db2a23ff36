"""Types of decoded values: JSON, and what an OTLP attribute can hold."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

# Treat as immutable: the same object may be shared by a span view, an observation and a tool call.
Json: TypeAlias = bool | int | float | str | list["Json"] | dict[str, "Json"] | None
JsonObject: TypeAlias = dict[str, Json]

# An OTLP AnyValue, decoded. `None` is an AnyValue that is present but empty, which differs from a missing key.
Value: TypeAlias = bool | int | float | str | bytes | Sequence["Value"] | Mapping[str, "Value"] | None
