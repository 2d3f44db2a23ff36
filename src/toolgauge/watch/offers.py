"""The tools that each run of a trajectory was offered, in a short form that can be kept and sent to another process."""

import json
import zlib
from functools import lru_cache

from msgspec import Struct

from toolgauge.model.json import JsonObject
from toolgauge.model.metrics import MAX_LABEL, fit_label, short_hash
from toolgauge.model.names import stable_tool
from toolgauge.model.observations import ToolDefinition
from toolgauge.model.records import ENVIRONMENT, VERSION
from toolgauge.model.trajectory import Trajectory
from toolgauge.watch.schema_changes import Words, canonical

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
            contracts(run.tools_offered[:MAX_TOOLS]),
        )
        for run in trajectory.runs
        if run.tools_offered and run.offer_from == "trace"
    ]


# By identity, beside the definitions: agents repeat the same objects with each run. Without it, writing them takes 50 us each.
_known: dict[tuple[int, ...], tuple[tuple[ToolDefinition, ...], tuple[Contract, ...]]] = {}
_MOST_KNOWN = 512


def contracts(tools: tuple[ToolDefinition, ...]) -> tuple[Contract, ...]:
    """Return the contracts of these tools."""
    ids = tuple(map(id, tools))
    known = _known.get(ids)
    if known is None:
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        known = _known[ids] = tools, tuple([_contract(tool) for tool in tools])
    return known[1]


def _contract(tool: ToolDefinition) -> Contract:
    name = stable_tool(tool.name)
    schema = "" if tool.parameters is None else json.dumps(tool.parameters)
    if len(schema) > _MAX_SCHEMA_BYTES:
        return Contract(fit_label(name), "", "", b"")
    # Some producers' definitions are made anew for each run.
    write = _written if len(schema) + len(tool.description or "") <= _LONGEST_TEXT else _written.__wrapped__
    return write(name[:MAX_LABEL], tool.description, schema)


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
