"""The files that a configuration is read from: what has to be looked at to notice a change.

They are found in what is written, not in what was loaded: while a criteria file is wrong, the files beside it, and that one
itself, still have to be looked at.
"""

import glob
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from toolgauge.config.evaluator_files import EvaluatorFile, evaluator_file
from toolgauge.config.load import absolute_glob, read
from toolgauge.config.nodes import Node, nearest
from toolgauge.config.parse import parse_yaml, read_file
from toolgauge.model.errors import ConfigError

# Device, inode, size and time of change of a file behind all links; `None` where there is none.
FileState: TypeAlias = tuple[int, int, int, int] | None


@dataclass(frozen=True, slots=True)
class Sources:
    """Files by name, and globs, in which further files may appear."""

    files: tuple[Path, ...]
    patterns: tuple[str, ...]

    def states(self) -> Mapping[Path, FileState]:
        """Return the state that each of the files has."""
        matched = (Path(name) for pattern in self.patterns for name in glob.glob(pattern, recursive=True))  # noqa: PTH207 (`Path.glob` takes no absolute pattern)
        return {path: _state(path) for path in (*self.files, *matched)}


def find_sources(
    paths: Sequence[Path],
    overrides: Sequence[str],
    environment: Mapping[str, str],
    criteria_paths: Sequence[Path] = (),
) -> Sources:
    """Find the files of a configuration: its own, criteria, references, evaluators and definitions of tools.

    `criteria_paths` are criteria files beside those that it names. What cannot be read names no further files.
    """
    # A pipe can be read once, and is not ours.
    if not all(path.is_file() for path in paths):
        return Sources((*paths, *criteria_paths), ())
    try:
        root = read(paths, overrides, environment)
    except ConfigError:
        return Sources((*paths, *criteria_paths), ())
    tools = root.child("tools")
    criteria_files = tuple(_patterns(root.child("criteria_files")))
    definitions = tuple(_patterns(tools.child("definitions") if tools is not None else None))
    named = [*criteria_paths, *_named(root.child("criteria"))]
    for path in criteria_paths:
        named.extend(_named_by_file(path, environment))
    for name in (name for pattern in criteria_files for name in sorted(glob.glob(pattern, recursive=True))):  # noqa: PTH207 (as above)
        named.extend(_named_by_file(Path(name), environment))
    return Sources(tuple(dict.fromkeys((*paths, *named))), (*criteria_files, *definitions))


def _patterns(node: Node | None) -> Iterator[str]:
    if node is None or not isinstance(node.value, list):
        return
    for entry in node.value:
        pattern = absolute_glob(entry)
        if isinstance(pattern, str):
            yield pattern


def _named_by_file(path: Path, environment: Mapping[str, str]) -> tuple[Path, ...]:
    try:
        root = parse_yaml(read_file(path), str(path), environment) if path.is_file() else None
    except ConfigError:
        return ()
    return () if root is None else tuple(_named(root.child("criteria") or root))


def _named(criteria: Node | None) -> Iterator[Path]:
    if criteria is None or not isinstance(criteria.value, list):
        return
    for criterion in criteria.value:
        code = evaluator_file(criterion)
        if isinstance(code, EvaluatorFile):
            yield code.path
        reference = criterion.child("reference")
        file = reference.child("file") if reference is not None else None
        if file is not None and isinstance(file.value, str):
            yield nearest(criterion, ("reference", "file")).place.directory / file.value


def _state(path: Path) -> FileState:
    try:
        found = os.stat(path)  # noqa: PTH116 (through every link, at once)
    except (OSError, ValueError):  # ValueError: a NUL in the name
        return None
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns) if stat.S_ISREG(found.st_mode) else None
