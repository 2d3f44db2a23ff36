"""A first configuration and criteria file, commented, which run as they are: from seen traffic, from ready-made packs, or both."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

from toolgauge.authoring.criteria_yaml import Commented, Written, yaml_text

_START = "criteria:\n"
_CONFIGURATION = """\
# Configuration of toolgauge, written by `toolgauge init`. Run it:
#   toolgauge serve --config {config}
# Every key has a default: `toolgauge print-config` prints them all.

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

# Tools that change state, and tools that only read, decided by their names: `tools: writes` in a criterion means the
# first. Put each where it belongs; tools that stand in neither are decided by their names.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenTraffic:
    """What recorded traffic shows of itself: learned criteria, and its tools by what they do."""

    criteria: str
    has_conversations: bool
    writes: Sequence[str]
    read_only: Sequence[str]


def packs() -> tuple[str, ...]:
    """Name the packs."""
    folder = files("toolgauge.authoring") / "packs"
    return tuple(sorted(file.name.removesuffix(".yaml") for file in folder.iterdir() if file.name.endswith(".yaml")))


def pack(name: str) -> str:
    """Read a pack: a criteria file."""
    return (files("toolgauge.authoring") / "packs" / f"{name}.yaml").read_text(encoding="utf-8")


def configuration(seen: SeenTraffic | None, *, config: str, criteria: str) -> str:
    """Write the configuration file; `config` and `criteria` are the names of both files."""
    scope = "conversation" if seen is not None and seen.has_conversations else "trace"
    text = _CONFIGURATION.format(config=config, criteria=criteria, scope=scope)
    if seen is None or not (seen.writes or seen.read_only):
        return text
    named = (("writes", seen.writes), ("read_only", seen.read_only))
    tools: dict[str, Written] = {key: names for key, names in named if names}
    return text + _TOOLS + yaml_text({"tools": Commented(tools)})


def criteria_file(seen: SeenTraffic | None, names: Sequence[str]) -> str:
    """Write one criteria file of what was learned and of packs."""
    written = ([] if seen is None else [seen.criteria]) + [pack(name) for name in names]
    heads: list[str] = []
    entries: list[str] = []
    for text in written:
        head, _, body = text.partition(_START)
        heads.append("".join(line for line in head.splitlines(keepends=True) if line.startswith("#")))
        entries.append(body)
    body = "\n".join(entry for entry in entries if entry)
    return "".join(heads) + (_START + body if body else "criteria: []\n")
