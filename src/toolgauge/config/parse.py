"""Files of YAML -> nodes with their places; `${env:NAME}` is filled in as a scalar and can never add structure.

YAML 1.2 core rules: `off` and `12:30` are texts. Aliases have a limit: nine lines of them can stand for a billion values.
"""

import glob
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import yaml

from toolgauge.config.problems import Node, Place, Problem, config_error
from toolgauge.model.errors import ConfigError

_TAG = "tag:yaml.org,2002:"
CORE_SCALARS = (
    (_TAG + "null", re.compile(r"(?:~|null|Null|NULL|)\Z")),
    (_TAG + "bool", re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z")),
    (_TAG + "int", re.compile(r"[-+]?(?:0|[1-9][0-9]*)\Z")),
    (_TAG + "float", re.compile(r"[-+]?(?:0|[1-9][0-9]*)(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?\Z")),
)
_LARGEST_FILE = 256 * 2**20
_REPEATED_NODES = 10_000
_MAX_FLOW_DEPTH = 200
_SUBSTITUTION = re.compile(r"\$\$|\$\{(?P<inside>[^{}]*)\}|\$\{")
_VARIABLE = re.compile(r"env:(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>.*))?\Z", re.DOTALL)


class _Loader(yaml.SafeLoader):
    """The libyaml loader is faster and overflows the C stack on deep nesting; this one raises."""

    yaml_implicit_resolvers = {None: list(CORE_SCALARS)}  # noqa: RUF012 (PyYAML wants a plain class attribute)

    def fetch_flow_collection_start(self, TokenClass: type[yaml.Token]) -> None:  # noqa: N803 - PyYAML's name
        """Begin `[` or `{`; the time for each grows with their depth, which is bounded therefore."""
        if self.flow_level >= _MAX_FLOW_DEPTH:
            raise RecursionError
        super().fetch_flow_collection_start(TokenClass)  # pyright: ignore[reportUnknownMemberType]  # not in the stubs


def read_file(path: Path) -> bytes:
    """Read a whole file. Raises ConfigError."""
    try:
        if path.stat().st_size > _LARGEST_FILE:
            raise ConfigError(f"`{path}` is larger than {_LARGEST_FILE // 2**20} MiB")
        return path.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ConfigError(f"cannot read `{path}`: {reason}") from error


def files_matching(pattern: str, kind: str, key: str) -> list[str]:
    """Find the files that a glob of the key matches. Raises ConfigError where there is none."""
    found = sorted(name for name in glob.glob(pattern, recursive=True) if not Path(name).is_dir())  # noqa: PTH207 (`Path.glob` takes no absolute pattern)
    if not found:
        raise ConfigError(
            f"no {kind} matches `{pattern}`", hint=f"`{key}` are relative to the file they are written in"
        )
    return found


def parse_yaml(
    text: str | bytes, source: str, environment: Mapping[str, str] | None, *, first_line: int | None = 1
) -> Node:
    """Read one document; empty text is null. Raises ConfigError with every problem found.

    `first_line` is `None` for text without lines (an option); without an `environment` dollar signs stay as they are.
    """
    reader = _Reader(source, environment, first_line)
    try:
        document = yaml.compose(text, Loader=_Loader)
        node = Node(None, Place(source)) if document is None else reader.read(document)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        context = f" {error.context}" if error.context else ""
        message = f"not valid YAML: {error.problem or 'broken'}{context}"
        raise config_error([Problem(reader.place(mark), message)]) from error
    except yaml.reader.ReaderError as error:
        before = text[: error.position]
        line = (before.count(b"\n") if isinstance(before, bytes) else before.count("\n")) + 1
        character: object = error.character
        code = ord(character) if isinstance(character, str | bytes) else character
        message = f"character or byte 0x{code:02x} is not allowed in YAML"
        raise config_error([Problem(Place(source, line), message)]) from error
    except RecursionError as error:
        raise config_error([Problem(Place(source), "the values are nested too deeply")]) from error
    if reader.problems:
        raise config_error(reader.problems)
    return node


class _Reader:
    """Turns composed YAML nodes into ours."""

    def __init__(self, source: str, environment: Mapping[str, str] | None, first_line: int | None) -> None:
        self.problems: list[Problem] = []
        self._source = source
        self._environment = environment
        self._first_line = first_line
        self._seen: set[int] = set()
        self._above: set[int] = set()
        self._repeated = 0

    def read(self, node: yaml.Node, place: Place | None = None) -> Node:
        """Convert one node and all below it."""
        place = place or self.place(node.start_mark)
        if id(node) in self._seen:
            self._repeated += 1
            if self._repeated > _REPEATED_NODES:
                raise config_error([Problem(place, f"aliases stand for more than {_REPEATED_NODES} values")])
        self._seen.add(id(node))
        if isinstance(node, yaml.ScalarNode):
            return Node(self._scalar(node, place), place)
        if id(node) in self._above:
            raise config_error([Problem(place, "an alias stands for something that contains it")])
        self._above.add(id(node))
        if isinstance(node, yaml.MappingNode):
            result = Node(dict(self._entries(node)), place)
        else:
            result = Node([self.read(item) for item in node.value], place)
        self._above.remove(id(node))
        return result

    def place(self, mark: yaml.Mark | None) -> Place:
        """Return the file and the line of a mark."""
        if mark is None or self._first_line is None:
            return Place(self._source)
        return Place(self._source, mark.line + self._first_line)

    def _entries(self, node: yaml.MappingNode) -> Iterator[tuple[str, Node]]:
        lines: dict[str, Place] = {}
        inherited: dict[str, Node] = {}
        for key, value in node.value:
            place = self.place(key.start_mark)
            if not isinstance(key, yaml.ScalarNode):
                self.problems.append(Problem(place, "a key must be a text"))
            elif key.value == "<<" and key.style is None:
                # Read what a merge key (`<<`) names: one mapping, or a list of which the first wins.
                read = self.read(value)
                mappings = read.value if isinstance(read.value, list) else [read]
                found: dict[str, Node] = {}
                for mapping in mappings:
                    if isinstance(mapping.value, dict):
                        found = {**mapping.value, **found}
                    else:
                        self.problems.append(Problem(mapping.place, "`<<` must name a mapping"))
                inherited = {**found, **inherited}
            elif key.value in lines:
                self.problems.append(Problem(place, f"key `{key.value}` is given twice, first at {lines[key.value]}"))
            else:
                lines[key.value] = place
                yield key.value, self.read(value, place)
        yield from ((key, value) for key, value in inherited.items() if key not in lines)

    def _scalar(self, node: yaml.ScalarNode, place: Place) -> bool | int | float | str | None:
        text, environment = node.value, self._environment
        if environment is not None and "$" in text:
            text = _SUBSTITUTION.sub(lambda found: self._replacement(found, place, environment), text)
        tag = node.tag
        if node.style is None and tag == _TAG + "str" and text != node.value:
            tag = next((tag for tag, pattern in CORE_SCALARS if pattern.match(text)), tag)
        try:
            match tag.removeprefix(_TAG):
                case "str":
                    return text
                case "null":
                    return None
                case "bool":
                    return text.lower() == "true"
                case "int":
                    if len(text) > 400:
                        raise ValueError("is too long for a number")
                    return int(text)
                case "float":
                    number = float(text)
                    if not math.isfinite(number):
                        raise ValueError("is too large for a number")
                    return number
                case _:
                    raise ValueError("has a YAML tag that is not known here")
        except ValueError as error:
            self.problems.append(Problem(place, f"`{text[:60]}` {error}"))
            return None

    def _replacement(self, found: re.Match[str], place: Place, environment: Mapping[str, str]) -> str:
        if found.group() == "$$":
            return "$"
        variable = _VARIABLE.match(found.group()[2:-1])
        if variable is None:
            hint = "write `${env:NAME}` or `${env:NAME:-default}`, and `$${` for the text itself"
            self.problems.append(Problem(place, f"`{found.group()[:60]}` cannot be filled in", hint))
            return ""
        name = variable["name"]
        default: str | None = variable["default"]
        value = environment.get(name)
        value = default if value is None else value
        if value is None:
            hint = f"set it, or write `${{env:{name}:-default}}`"
            self.problems.append(Problem(place, f"environment variable `{name}` is not set", hint))
            return ""
        return value
