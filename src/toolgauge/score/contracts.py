"""Contracts of tools, as section `tools` has them. The words of a name decide where a contract leaves something open: that the tool reads,
hands over, answers, thinks, waits or asks how far something is.
"""

import re
from collections.abc import Collection, Mapping
from functools import cached_property, lru_cache
from typing import Annotated, Any, Literal, TypeAlias, cast

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    JsonValue,
    SerializerFunctionWrapHandler,
    StrictBool,
    model_serializer,
    model_validator,
)

from toolgauge.model.errors import ConfigError, SchemaError
from toolgauge.model.json import Json
from toolgauge.score.equality import same
from toolgauge.score.final_answers import ANSWER_NAMES, ANSWER_PREFIX
from toolgauge.score.patterns import Globs, Step, is_wild, read_path, values_at
from toolgauge.score.tool_schemas import ToolSchema
from toolgauge.settings import Section

# What a tool's name begins with when the tool only looks. Everything else may change something.
READING_VERBS = frozenset(
    (
        *("analyze", "browse", "calculate", "check", "compare", "compute", "count", "describe", "estimate", "explain"),
        *("fetch", "filter", "find", "get", "grep", "inspect", "list", "look", "lookup", "peek", "preview", "query"),
        *("read", "retrieve", "search", "show", "summarize", "think", "verify", "view"),
    )
)
# What the name of a tool begins with that hands over to another agent or to a person, ...
_HAND_OFFS = (("handoff",), ("hand", "off"), ("escalate",), ("delegate",))
# ... also in front of the agent's name, which may look like a tool's in a namespace (`transfer_to_billing.eu`).
_HAND_OFFS_TO = tuple((*words, "to") for words in (("transfer",), ("transfer", "back"), *_HAND_OFFS))
# Answering and thinking change nothing outside of the agents: the whole names of such tools. Handing over neither.
NEUTRAL_NAMES = frozenset(
    (
        *ANSWER_NAMES,
        *(("respond",), ("finish",), ("submit",), ("think",), ("plan",), ("calculate",)),
    )
)
# What the name of a tool begins with that waits, ...
_WAITING = (("wait",), ("await",), ("sleep",), ("poll",))
# ... and of one that asks how far something is, where it ends with `status`.
_ASKING = (("get",), ("check",))
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
# MCP servers, agents and namespaces precede a tool's own name.
_NAMESPACE = re.compile(r"__|[./:]")
READ_LENGTH = 256
MAX_KNOWN, _MAX_OFFERS = 1000, 64


def hands_over(name: str) -> bool:
    """Return whether the name of a tool shows that it hands over, or back, to another agent or to a person."""
    own = name_words(name)
    return begins(own, (*_HAND_OFFS, *_HAND_OFFS_TO)) or begins(_split(name[:READ_LENGTH]), _HAND_OFFS_TO)


def begins(words: tuple[str, ...], beginnings: Collection[tuple[str, ...]]) -> bool:
    """Return whether the words begin with any of these, of at most three words each."""
    return words[:1] in beginnings or words[:2] in beginnings or words[:3] in beginnings


def name_words(name: str) -> tuple[str, ...]:
    """Split the name of a tool into lower-case words, without its namespace."""
    return _split(_NAMESPACE.split(name[-READ_LENGTH:])[-1])


# Agents call the same few tools all day long.
@lru_cache(maxsize=MAX_KNOWN)
def _split(text: str) -> tuple[str, ...]:
    return tuple(word.lower() for word in _WORD.findall(text))


ToolKind: TypeAlias = Literal["writes", "reads", "neutral"]
MAX_CONTRACTS, MAX_NAME = 1000, 256
_MAX_ENTRIES, _MAX_LENGTH = 100, 500
# The condition of `fails_when` on the whole text of a result.
TEXT = "text"
_PARTS = {
    "arguments_schema": "a schema in `arguments`",
    "result_schema": "a schema `result`",
    "_texts": "a glob in `fails_when`",
}


def _several(written: object) -> object:
    """Let a single entry be written without a list."""
    single: tuple[object] = (written,)
    return cast("object", written) if isinstance(written, list | tuple) else single


_Text: TypeAlias = Annotated[str, Field(min_length=1, max_length=_MAX_LENGTH)]
Texts: TypeAlias = Annotated[
    tuple[_Text, ...],
    BeforeValidator(_several, json_schema_input_type=str | tuple[str, ...]),
    Field(min_length=1, max_length=_MAX_ENTRIES),
]
_Scalar: TypeAlias = bool | int | float | _Text | None
_Scalars: TypeAlias = Annotated[
    tuple[_Scalar, ...],
    BeforeValidator(_several, json_schema_input_type=_Scalar | tuple[_Scalar, ...]),
    Field(min_length=1, max_length=_MAX_ENTRIES),
]


def _paths(written: tuple[str, ...]) -> tuple[str, ...]:
    for path in written:
        read_path(path)
    return written


# Each begins with an argument.
_Paths: TypeAlias = Annotated[Texts, AfterValidator(_paths)]


def _conditions(written: dict[str, tuple[_Scalar, ...]]) -> dict[str, tuple[_Scalar, ...]]:
    for path, values in written.items():
        if path != TEXT:
            read_path(path)
        elif not all(isinstance(one, str) for one in values):
            raise ValueError('has a `text` that is no glob; a field of this name is `["text"]`')
    return written


class Requirement(Section):
    """A call of one of these tools worked in an earlier turn; with `same`, calls that had the values of these arguments."""

    call: Texts
    same: _Paths | None = None


class Contract(Section):
    """The contract of a tool; `None` is not known: a less exact entry of `tools` decides, else the words of the name."""

    changes_state: StrictBool | None = None
    # Whether equal calls have one effect.
    idempotent: StrictBool | None = None
    # Calls that had to work before.
    requires: (
        Annotated[
            tuple[Requirement, ...],
            BeforeValidator(_several, json_schema_input_type=Requirement | tuple[Requirement, ...]),
            Field(max_length=_MAX_ENTRIES),
        ]
        | None
    ) = None
    # A JSON Schema for each argument, beside that of the tool on offer.
    arguments: Annotated[dict[str, dict[str, JsonValue]], Field(max_length=_MAX_ENTRIES)] | None = None
    # A JSON Schema for the results of calls that worked.
    result: dict[str, JsonValue] | None = None
    # Results that are failures: values at paths, and under `text` globs over the whole text.
    fails_when: (
        Annotated[dict[str, _Scalars], Field(min_length=1, max_length=_MAX_ENTRIES), AfterValidator(_conditions)] | None
    ) = None
    # Arguments whose values go to no tool without personal arguments.
    personal: _Paths | None = None
    # Whether it is called again and again on purpose.
    polls: StrictBool | None = None
    # Whether it hands over to another agent or to a person.
    hands_over: StrictBool | None = None

    @model_validator(mode="after")
    def _can_be_used(self) -> "Contract":
        # Compiled here, so that what cannot be is an error at once.
        for key in ("arguments_schema", "result_schema", "_texts"):
            try:
                getattr(self, key)
            except (SchemaError, ConfigError) as error:
                raise ValueError(f"has {_PARTS[key]} that cannot be used: {error}") from error
        return self

    @model_serializer(mode="wrap")
    def _without_unknown(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {key: value for key, value in write(self).items() if value is not None}

    @cached_property
    def arguments_schema(self) -> ToolSchema | None:
        """The schema of all arguments together."""
        return None if self.arguments is None else ToolSchema({"properties": {**self.arguments}}, "allow")

    @cached_property
    def result_schema(self) -> ToolSchema | None:
        """The schema of results."""
        return None if self.result is None else ToolSchema(self.result, "allow")

    @cached_property
    def _by_path(self) -> tuple[tuple[str, tuple[Step, ...], tuple[_Scalar, ...]], ...]:
        return tuple(
            (path, read_path(path), values) for path, values in (self.fails_when or {}).items() if path != TEXT
        )

    @cached_property
    def _texts(self) -> Globs | None:
        globs = (self.fails_when or {}).get(TEXT)
        return None if globs is None else Globs([one for one in globs if isinstance(one, str)])

    def failed_by(self, text: str, value: Json) -> str | None:
        """Return the path, or `text`, by which a result is a failure; `None` for any other result."""
        for path, steps, values in self._by_path:
            if any(same(one, found) for found in values_at(value, steps) for one in values):
                return path
        return TEXT if self._texts is not None and self._texts.match(text) else None

    @property
    def judges(self) -> bool:
        """Whether it judges single calls."""
        return any((self.requires, self.arguments, self.result, self.fails_when, self.personal))


_NOTHING = Contract()


# Each key is that of the most exact entry that has it: a name before globs, of globs the one with more letters.
class ToolKinds:
    """The kinds of tools by their names: contracts decide first, else words."""

    def __init__(self, contracts: Mapping[str, Contract] | None = None) -> None:
        self.contracts: Mapping[str, Contract] = contracts or {}
        ordered = sorted(self.contracts, key=lambda name: (not is_wild(name), len(re.sub("[*?]", "", name))))
        self._entries = [(Globs((name,)), self.contracts[name]) for name in ordered]
        # Whether any contract judges single calls, and whether any has failures.
        self.judges = any(one.judges for one in self.contracts.values())
        self.has_failures = any(one.fails_when for one in self.contracts.values())
        personal = [name for name, one in self.contracts.items() if one.personal]
        # Tools that may be given personal values.
        self.personal = Globs(personal) if personal else None
        # Agents call the same few tools again and again.
        known = lru_cache(maxsize=MAX_KNOWN)
        self.of, self._kind = known(self._merged), known(self._decided)
        # All tools on offer are asked for with each trajectory.
        self.writing = lru_cache(maxsize=_MAX_OFFERS)(self._writing)

    def _merged(self, name: str) -> Contract:
        """Return the contract of a tool."""
        found = [contract for globs, contract in self._entries if globs.match(name)]
        if len(found) < 2:
            return found[0] if found else _NOTHING
        return Contract.model_construct(**{key: value for one in found for key, value in one if value is not None})

    def writes(self, name: str) -> bool:
        """Return whether the tool changes state."""
        return self._kind(name) == "writes"

    def _writing(self, names: Collection[str]) -> frozenset[str]:
        """Return the tools that change state."""
        return frozenset([name for name in names if self._kind(name) == "writes"])

    def is_neutral(self, name: str) -> bool:
        """Return whether the tool hands over, answers or thinks."""
        return self._kind(name) == "neutral"

    def gives_answers(self, name: str, *, was_taken: bool) -> bool:
        """Return whether a tool carries the structured answer, by its name or because one of its calls `was_taken` for it."""
        words = name_words(name)
        is_answer = was_taken or words in ANSWER_NAMES or words[: len(ANSWER_PREFIX)] == ANSWER_PREFIX
        if not is_answer or self.is_neutral(name):
            return is_answer
        return self.of(name).changes_state is None and self.of(name).hands_over is None

    def hands_over(self, name: str) -> bool:
        """Return whether a tool hands over, or back, to another agent or to a person."""
        declared = self.of(name).hands_over
        return hands_over(name) if declared is None else declared

    def pauses(self, name: str) -> bool:
        """Return whether a call of the tool is a change that makes the next equal call of another one new."""
        declared = self.of(name).polls
        is_waiting = begins(name_words(name), _WAITING) if declared is None else declared
        return is_waiting or self.hands_over(name)

    def may_repeat(self, name: str) -> bool:
        """Return whether the tool is called again and again on purpose, or hands over."""
        declared = self.of(name).polls
        if declared is None:
            # `wait_for_job`, `get_job_status`.
            own = name_words(name)
            declared = begins(own, _WAITING) or (begins(own, _ASKING) and own[-1] == "status")
        return declared or self.hands_over(name)

    def _decided(self, name: str) -> ToolKind:
        contract = self.of(name)
        if contract.changes_state:
            return "writes"
        if contract.hands_over:
            return "neutral"
        if contract.changes_state is False:
            return "reads"
        if name_words(name) in NEUTRAL_NAMES or (contract.hands_over is None and hands_over(name)):
            return "neutral"
        return "reads" if any(word in READING_VERBS for word in name_words(name)[:1]) else "writes"


BY_NAME = ToolKinds()
