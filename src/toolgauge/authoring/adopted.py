"""Criteria that people adopted from what separates bad runs from good ones: the file `learned.yaml` in the state directory.

A criterion begins in the shadow, and is live when somebody says so. People may edit the file: their comments stay.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, TypeAlias

from toolgauge.config.criteria import LEARNED_FILE
from toolgauge.config.parse import parse_yaml, read_file
from toolgauge.model.errors import ConfigError

# What becomes of a criterion: it is tried, decides, or goes.
Step: TypeAlias = Literal["shadow", "live", "drop"]

_HEAD = (
    "# Criteria that people adopted in the web view. In the shadow a criterion is scored, and compared with later verdicts, but marks\n"
    "# nothing. Change or delete them here: `toolgauge serve` reads this file at its start, on SIGHUP, and after each adoption.\n"
)
_ENFORCE = re.compile(r"^([ -]*enforce: *)(shadow|live)\b", re.MULTILINE)


def adopted(directory: Path) -> Mapping[str, Step]:
    """Return the adopted criteria by name, each in the shadow or live. Raises `ConfigError` where the file cannot be read."""
    found = {name: _ENFORCE.search(text) for name, text in _entries(directory).items()}
    return {name: "shadow" if one is not None and one[2] == "shadow" else "live" for name, one in found.items()}


def take_step(directory: Path, name: str, step: Step, text: str = "") -> Path:
    """Take a step with one criterion, and return the file; `text` is the entry of a list of criteria, of one that is new.

    Raises `ConfigError` where the file cannot be read or written.
    """
    entries = _entries(directory)
    before = entries.get(name, text)
    if step == "drop":
        entries.pop(name, None)
    elif before:
        entries[name] = _ENFORCE.sub(rf"\g<1>{step}", before, count=1)
    path = directory / LEARNED_FILE
    beside = path.with_suffix(".new")
    written = "\n".join(["criteria:", *map(str.rstrip, entries.values())]) if entries else "criteria: []"
    try:
        beside.touch(mode=0o600)
        beside.write_text(f"{_HEAD}{written}\n", encoding="utf-8")
        beside.replace(path)
    except OSError as error:
        raise ConfigError(f"cannot write `{path}`: {(error.strerror or str(error)).lower()}") from error
    return path


def _entries(directory: Path) -> dict[str, str]:
    """Return the lines of each criterion by its name, in the order of the file."""
    path = directory / LEARNED_FILE
    if not path.is_file():
        return {}
    content = read_file(path)
    root = parse_yaml(content, str(path), None)
    nodes = root.items("criteria")
    places = {one.place.line for one in nodes}
    # Steps move whole lines: nothing that somebody wrote may be lost.
    if not isinstance(root.value, dict) or {*root.value} != {"criteria"} or len(places) < len(nodes):
        raise ConfigError(f"`{path}` holds more than a list of criteria, each on lines of its own: change it by hand")
    lines = content.decode(errors="replace").splitlines()
    starts = [(one.place.line or 1) - 1 for one in nodes]
    names = [name.value if (name := one.child("name")) is not None else "" for one in nodes]
    return {
        str(name): "\n".join(lines[start:end])
        for name, start, end in zip(names, starts, [*starts[1:], len(lines)], strict=False)
    }
