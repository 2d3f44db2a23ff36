"""What helps where a producer leaves a fact out: `remedies.toml`, looked up by scope, language, version and dialect.

A producer is a library in a service. Advice names variables and options, and those of one language are of no use in another.
OpenTelemetry's SDKs record their language with the resource; where it is absent (applications often make a resource of their
own), the form of the scope's name shows it: npm packages, Go modules, Java packages, Python modules and .NET namespaces differ.
"""

import re
from collections.abc import Collection
from functools import cache
from importlib.resources import files
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

Fact: TypeAlias = Literal[
    "calls", "arguments", "results", "failures", "call_ids", "tool_definitions", "conversation_id", "user_text"
]
# The facts that a single content switch governs.
_CONTENT: tuple[Fact, ...] = ("calls", "arguments", "results", "user_text")
# Hides what models and tools gave back, all of it.
HIDES_OUTPUTS = "OPENINFERENCE_HIDE_OUTPUTS"

# `telemetry.sdk.language` has a closed list of values; a page in a browser runs what a server in JavaScript runs.
_SAME = {"webjs": "nodejs"}
_FORMS = (
    (re.compile(r"@[\w.-]+/|(?:.+[./-])?(?:typescript|javascript|nodejs)$"), "nodejs"),
    (re.compile(r"io\.opentelemetry\.contrib\.php\."), "php"),
    (re.compile(r"(?:io\.opentelemetry|io\.micrometer|org\.springframework|com\.arize|dev\.langchain4j)\."), "java"),
    # The path of a module: a host, then a slash.
    (re.compile(r"[a-z0-9-]+(?:\.[a-z0-9-]+)+/"), "go"),
    (re.compile(r"[A-Z]\w*(?:\.[A-Z]\w*)+$"), "dotnet"),
    (
        re.compile(r"(?:opentelemetry|openinference|openlit|strands|traceloop|uipath|semantic_kernel|litellm)\."),
        "python",
    ),
    (
        re.compile(r"(?:pydantic[-_]ai|agent_framework|autogen|haystack|litellm|logfire|fastmcp|mcp-python-sdk)\b"),
        "python",
    ),
    # The tracers of the AI SDK, of Strands for TypeScript, and of the Gemini CLI.
    (re.compile(r"(?:ai|gen_ai|strands-agents|gemini-cli)$"), "nodejs"),
)
_LONGEST_SCOPE = 256
_RELEASE = re.compile(r"v?(\d{1,9})(?:\.(\d{1,9}))?(?:\.(\d{1,9}))?")


class Producer(Struct, frozen=True, kw_only=True, order=True):
    """A library (`scope`, `version`) in a service, and the language of its process. Each is "" where it is not known."""

    service: str
    scope: str
    version: str
    language: str = ""

    @property
    def release(self) -> tuple[int, ...] | None:
        """The numbers of the version, up to three; `None` where there are none."""
        found = _RELEASE.match(self.version)
        return None if found is None else tuple(int(number) for number in found.groups() if number is not None)


def producer_of(service: str | None, scope: str, version: str, sdk_language: str) -> Producer:
    """Name a producer; `sdk_language` is the resource's `telemetry.sdk.language`, "" where it has none."""
    language = _SAME.get(sdk_language, sdk_language)
    if not language:
        language = next((language for form, language in _FORMS if form.match(scope[:_LONGEST_SCOPE])), "")
    return Producer(service=service or "", scope=scope, version=version, language=language)


class Remedy(Struct, frozen=True, kw_only=True):
    """How to record a missing fact, with the exact names of `switches`; where no setting does (`never`), `how` names other help."""

    how: str
    switches: tuple[str, ...] = ()
    never: bool = False


class Row(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Remedies for producers of these dialects, scope beginnings and languages (empty fits all), in releases below `before`."""

    dialects: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    before: tuple[int, ...] | None = None
    remedies: dict[Fact | Literal["content"], str]

    def fits(self, producer: Producer, dialects: Collection[str]) -> bool:
        """Return whether the row is about this producer."""
        if self.dialects and not any(dialect in self.dialects for dialect in dialects):
            return False
        # Whole words: `ai` is not the beginning of `airline`.
        if self.scopes and not any(re.match(rf"{re.escape(scope)}(?!\w)", producer.scope) for scope in self.scopes):
            return False
        if self.languages and producer.language not in self.languages:
            return False
        return self.before is None or (producer.release is not None and producer.release < self.before)


class Table(Struct, frozen=True, forbid_unknown_fields=True):
    """The file of remedies."""

    remedies: dict[str, Remedy]
    rows: tuple[Row, ...]


@cache
def table() -> Table:
    """Read the file of remedies."""
    written = files("toolgauge.recognize").joinpath("remedies.toml").read_bytes()
    return msgspec.toml.decode(written, type=Table)


def remedy(fact: Fact, producer: Producer, dialects: Collection[str]) -> Remedy:
    """Look up what helps a producer whose spans lack the fact: the first row that fits and knows the fact answers."""
    for row in table().rows:
        name = row.remedies.get(fact) or (row.remedies.get("content") if fact in _CONTENT else None)
        if name is not None and row.fits(producer, dialects):
            return table().remedies[name]
    raise KeyError(fact)  # the last row knows all facts
