"""A first configuration and criteria file, commented, which run as they are: from seen traffic, MCP servers and ready-made packs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files

from toolgauge.authoring.criteria_yaml import Written, as_glob, yaml_text
from toolgauge.config.tool_definitions import listed_tools
from toolgauge.model.errors import ConfigError
from toolgauge.model.json import Json
from toolgauge.recognize.values import as_object

_START = "criteria:\n"
_CONFIGURATION = """\
# Configuration of toolgauge, written by `toolgauge init`. Run it:
#   toolgauge serve --config {config}
# Every key has a default: `toolgauge validate --print` prints them all.

# Where agents and Collectors send OTLP.
receivers:
  otlp:
    protocols:
      grpc: {{endpoint: "localhost:4317"}}
      http: {{endpoint: "localhost:4318"}}

# Where spans go on to, with their scores. Without a destination, scores are in the web view and on localhost:9464/metrics.
# exporters:
#   otlp: {{endpoint: "localhost:14317"}}

# What is checked beside the default criteria. A criterion with `enforce: shadow` raises no alarm and marks no span.
criteria_files: ["{criteria}"]

# The criteria that need no reference. With `scope: conversation` they look at all turns of a conversation together.
defaults: {{enabled: true, scope: {scope}}}
# In its place, to count failed calls that a later call made good too:
# defaults: {{enabled: true, scope: {scope}, tool_success: {{retries: count}}}}
"""
_TOOLS = """\

# One contract for each tool. Whether it changes state is decided by its name, or by what its MCP server says: check it. The
# comments are evidence from traffic; delete what should not hold.
"""
_DEFINITIONS = """\

# The tools on offer, for traffic that does not show them.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenTools:
    """Learned criteria, contracts of tools, and files with their definitions."""

    criteria: str = ""
    has_conversations: bool = False
    contracts: Mapping[str, Written] = field(default_factory=dict[str, Written])
    definitions: Sequence[str] = ()


def packs() -> tuple[str, ...]:
    """Name the packs."""
    folder = files("toolgauge.authoring") / "packs"
    return tuple(sorted(file.name.removesuffix(".yaml") for file in folder.iterdir() if file.name.endswith(".yaml")))


def pack(name: str) -> str:
    """Read a pack: a criteria file."""
    return (files("toolgauge.authoring") / "packs" / f"{name}.yaml").read_text(encoding="utf-8")


def configuration(seen: SeenTools, *, config: str, criteria: str) -> str:
    """Write the configuration file; `config` and `criteria` are the names of both files."""
    scope = "conversation" if seen.has_conversations else "trace"
    text = _CONFIGURATION.format(config=config, criteria=criteria, scope=scope)
    if seen.contracts:
        text += _TOOLS + yaml_text({"tools": seen.contracts})
    if seen.definitions:
        text += _DEFINITIONS + yaml_text({"tool_definitions": seen.definitions})
    return text


def of_mcp(answer: Json) -> Mapping[str, Mapping[str, Written]]:
    """Return the contracts that an answer to MCP's `tools/list` holds: its annotations and output schemas."""
    found: dict[str, Mapping[str, Written]] = {}
    for _, tool in listed_tools(answer):
        name = tool.get("name") if isinstance(tool, dict) else None
        if not isinstance(tool, dict) or not isinstance(name, str) or not name:
            raise ConfigError("holds a tool without a name")
        hints, result = as_object(tool.get("annotations")), tool.get("outputSchema")
        contract: dict[str, Written] = {}
        # A tool that destroys something changes state, even without another hint.
        if isinstance(reads := hints.get("readOnlyHint"), bool):
            contract["changes_state"] = not reads
        elif hints.get("destructiveHint") is True:
            contract["changes_state"] = True
        idempotent = hints.get("idempotentHint")
        if isinstance(idempotent, bool) and contract.get("changes_state") is not False:
            contract["idempotent"] = idempotent
        if isinstance(result, dict):
            contract["result"] = result
        if contract:
            found[as_glob(name)] = contract
    return found


def criteria_file(seen: SeenTools, names: Sequence[str]) -> str:
    """Write one criteria file of learned criteria and packs."""
    written = ([seen.criteria] if seen.criteria else []) + [pack(name) for name in names]
    parts = [text.partition(_START) for text in written]
    lines = [line for head, *_ in parts for line in head.splitlines(keepends=True) if line.startswith("#")]
    body = "\n".join(entries for *_, entries in parts if entries)
    return "".join(lines) + (_START + body if body else "criteria: []\n")
