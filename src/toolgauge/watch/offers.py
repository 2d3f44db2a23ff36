"""The tools that each run of a trajectory was offered, in a short form that can be kept and sent to another process, and how two
definitions of a tool differ: in their arguments, required arguments, and the types and values of each.

Of common spellings of one meaning (the order of names, one `const` or an `enum`, `nullable`) only one is kept. A difference anywhere else
is a change whose effect is not known.
"""

import json
import zlib
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Literal, TypeAlias

from msgspec import Struct

from toolgauge.model.json import Json, JsonObject
from toolgauge.model.masks import is_mask
from toolgauge.model.metrics import MAX_LABEL, fit_label, short_hash
from toolgauge.model.names import stable_tool
from toolgauge.model.observations import ToolDefinition, Tools
from toolgauge.model.records import ENVIRONMENT, VERSION
from toolgauge.model.trajectory import Trajectory

# Hashes of texts by their place.
Words: TypeAlias = dict[str, str]
Difference: TypeAlias = tuple[Literal["breaking", "changed", "additive", "wording"], str]

_ROOT = "$.parameters"
_MAX_DEPTH = 64
_GRAVEST = ("breaking", "changed", "additive")
_ALL: frozenset[str] = frozenset(("string", "integer", "number", "boolean", "object", "array", "null"))
# Keywords that do not change whether a value is valid.
_ANNOTATIONS = frozenset(
    ("description", "title", "default", "examples", "example", "format", "deprecated", "readOnly", "writeOnly")
) | {"$schema", "$id"}  # fmt: skip
_BY_NAME = frozenset(("properties", "patternProperties", "dependentSchemas", "$defs", "definitions"))
# The ends of texts that a producer has cut.
_CUT = ("...", "\u2026", "truncated]", "truncated>")


def canonical(definition: ToolDefinition) -> tuple[JsonObject | None, Words]:
    """Return the schema of a definition without annotations, `None` where it was not recorded, and its words."""
    words: Words = {}
    schema = None if definition.parameters is None else _object(_bare(definition.parameters, _ROOT, words, 0))
    _note(words, "$.description", definition.description)
    return schema, words


def difference(old: tuple[JsonObject | None, Words], new: tuple[JsonObject | None, Words]) -> Difference | None:
    """Return the gravest kind of change between two canonical definitions with the first place of it; `None` without any."""
    if old[0] is not None and new[0] is not None and old[0] != new[0]:
        found = sorted(_differences(old[0], new[0]), key=lambda one: _GRAVEST.index(one[0]))
        if found:
            return found[0]
    # A text that is missing on one side is no change.
    places = (place for place in sorted(old[1].keys() & new[1].keys()) if old[1][place] != new[1][place])
    return next((("wording", place) for place in places), None)


def _note(words: Words, place: str, text: Json) -> None:
    """Note a text; one that a producer cut or masked counts as missing."""
    bare = " ".join(text.split()) if isinstance(text, str) else ""
    if bare and not bare.endswith(_CUT) and not is_mask(bare):
        words[place] = short_hash(bare)[:6]


def _bare(value: Json, place: str, words: Words, depth: int, *, are_names: bool = False) -> Json:
    """Leave out annotations, collect the texts among them, and sort values that have no order."""
    if depth > _MAX_DEPTH:
        return None
    if isinstance(value, list):
        items = [_bare(one, f"{place}.{number}", words, depth + 1) for number, one in enumerate(value)]
        has_order = any(isinstance(one, dict | list) for one in items)
        return items if has_order else sorted(items, key=_text)
    if not isinstance(value, dict):
        return value
    found: JsonObject = {}
    for key, one in value.items():
        if are_names or key not in _ANNOTATIONS:
            # A single type is a list of one.
            written: Json = [one] if key == "type" and isinstance(one, str) and not are_names else one
            are_members = key in _BY_NAME and not are_names
            found[key] = _bare(written, f"{place}.{key}", words, depth + 1, are_names=are_members)
        elif key in ("description", "format"):
            _note(words, f"{place}.{key}", one)
    return found


def _differences(old: JsonObject, new: JsonObject) -> Iterator[Difference]:
    """Yield how the new schema accepts less (`breaking`) or more, and where it differs otherwise (`changed`)."""
    names, others = ({one for one in _list(each.get("required")) if isinstance(one, str)} for each in (old, new))
    for name in sorted(names ^ others):
        yield "breaking" if name in others else "additive", f"{_ROOT}.required.{name}"
    known, offered = _object(old.get("properties")), _object(new.get("properties"))
    for name in sorted(known.keys() | offered.keys()):
        place = f"{_ROOT}.properties.{name}"
        if name not in offered or name not in known:
            # Names that a schema does not declare are unknown arguments.
            yield "breaking" if name in known else "additive", place
            continue
        was, now = _object(known[name]), _object(offered[name])
        before, after = ({*map(_text, _list(each.get("enum")))} for each in (was, now))
        accepted, wanted = _accepted(now), _accepted(was)
        if before != after:
            yield "breaking" if after and (not before or before - after) else "additive", f"{place}.enum"
        elif accepted != wanted:
            yield "breaking" if wanted - accepted else "additive", f"{place}.type"
        if {**was, "type": 0, "enum": 0} != {**now, "type": 0, "enum": 0}:
            yield "changed", place
    for key in sorted((old.keys() | new.keys()) - {"required", "properties"}):
        if old.get(key) != new.get(key):
            yield "changed", f"{_ROOT}.{key}"


def _accepted(schema: JsonObject) -> set[str]:
    types = {one for one in _list(schema.get("type")) if isinstance(one, str)} or set(_ALL)
    return types | {"integer"} if "number" in types else types


def _list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []


def _object(value: Json) -> JsonObject:
    return value if isinstance(value, dict) else {}


AGENT_VERSION = "gen_ai.agent.version"
# Of one run. More are not compared.
MAX_TOOLS = 200
# Larger definitions are not compared; of 1,000 real ones, none takes more than 1500 bytes.
_MAX_FORM_BYTES = 4096
# Longer texts are not remembered, and with still longer ones it would take milliseconds to write them.
_LONGEST_TEXT, _MAX_SCHEMA_BYTES = 16_384, 128 * 1024
_RAW = -15
# Canonical definitions are mostly these words. It is part of the stored form.
_WORDS = b""""pattern":"maxLength":"minLength":"maximum":"minimum":"array"}"items":{"boolean"}"additionalProperties":false,"number"}\
"type":"object"}"enum":["type":["null","string"]}"anyOf":["type":"integer"},"type":"string"},[{"properties":{"query":{"type":"string"}},\
"required":["]},{"$.description":["$.parameters.description":["$.parameters.properties..description":[""]}]"""


class Contract(Struct, frozen=True, array_like=True, gc=False):
    """A tool on offer: hashes of its schema and its words, empty where not recorded, and both of them compressed."""

    tool: str
    schema: str
    words: str
    form: bytes

    @property
    def key(self) -> str:
        """Identifies the definition among those of one tool."""
        return f"{self.schema} {self.words}"

    def lacks_only(self, key: str) -> bool:
        """Return whether it is the definition of this key, but for what the producer left out."""
        schema, _, words = key.partition(" ")
        return self.schema in ("", schema) and self.words in ("", words)


class Offer(Struct, frozen=True, array_like=True, gc=False):
    """The tools that a run was offered. `is_whole` is False where more of them may not have been seen."""

    service: str
    environment: str
    agent: str
    version: str
    conversation: str
    is_whole: bool
    tools: tuple[Contract, ...]


def offers(trajectory: Trajectory) -> list[Offer]:
    """Return the offers of the runs of a trace that recorded any."""
    if trajectory.scope != "trace":
        return []
    version = trajectory.properties.get(AGENT_VERSION) or trajectory.resource.get(VERSION) or ""
    return [
        Offer(
            fit_label(trajectory.service or ""),
            fit_label(trajectory.resource.get(ENVIRONMENT) or ""),
            fit_label(run.agent or ""),
            fit_label(version),
            fit_label(trajectory.conversation_id or ""),
            trajectory.incomplete is None and len(run.tools_offered) <= MAX_TOOLS,
            Tools.of(run.tools_offered).once(contracts),
        )
        for run in trajectory.runs
        if run.tools_offered and run.offer_from == "trace"
    ]


def contracts(tools: Sequence[ToolDefinition]) -> tuple[Contract, ...]:
    """Return the contracts of the first `MAX_TOOLS` tools."""
    return tuple(map(contract_of, tools[:MAX_TOOLS]))


# By identity, beside the definitions: agents repeat the same objects with each run. Without it, writing them takes 50 us each.
_known: dict[int, tuple[ToolDefinition, Contract]] = {}
_MOST_KNOWN = 1024


def contract_of(tool: ToolDefinition) -> Contract:
    """Return the contract of a tool."""
    known = _known.get(id(tool))
    if known is not None:
        return known[1]
    name = stable_tool(tool.name)
    schema = "" if tool.parameters is None else json.dumps(tool.parameters)
    if len(schema) > _MAX_SCHEMA_BYTES:
        return Contract(fit_label(name), "", "", b"")
    if len(schema) + len(tool.description or "") > _LONGEST_TEXT:
        return _written.__wrapped__(name[:MAX_LABEL], tool.description, schema)
    if len(_known) >= _MOST_KNOWN:
        _known.clear()
    # Some producers make new definitions for each run.
    known = _known[id(tool)] = tool, _written(name[:MAX_LABEL], tool.description, schema)
    return known[1]


@lru_cache(maxsize=1024)
def _written(name: str, description: str | None, schema: str) -> Contract:
    parameters = json.loads(schema) if schema else None
    return contract(name, *canonical(ToolDefinition(name=name, description=description, parameters=parameters)))


def contract(tool: str, schema: JsonObject | None, words: Words) -> Contract:
    """Write the contract of a canonical definition."""
    of_schema = "" if schema is None else short_hash(_text(schema))
    of_words = short_hash(_text(words)) if words else ""
    packer = zlib.compressobj(9, zlib.DEFLATED, _RAW, zdict=_WORDS)
    form = packer.compress(_text([schema, words]).encode()) + packer.flush()
    if len(form) > _MAX_FORM_BYTES:
        return Contract(fit_label(tool), "", "", b"")
    return Contract(fit_label(tool), of_schema, of_words, form)


def definition_of(form: bytes) -> tuple[JsonObject | None, Words]:
    """Read the form of a contract."""
    if not form:
        return None, {}
    unpacker = zlib.decompressobj(_RAW, zdict=_WORDS)
    schema, words = json.loads(unpacker.decompress(form))
    return schema, words


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
