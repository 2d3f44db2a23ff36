"""A configuration as it was written, each value with its place, and the problems found in it.

Files, `--set` and environment variables become one tree of nodes; one `ConfigError` lists all problems with file and line.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import TypeAlias, cast, get_args

from pydantic import BaseModel, RootModel, ValidationError
from pydantic_core import ErrorDetails

from toolgauge.model.errors import ConfigError
from toolgauge.model.json import Json
from toolgauge.settings import UnitError

PathStep: TypeAlias = str | int


@dataclass(frozen=True, slots=True)
class Place:
    """Where something was written: a file as the user named it, an option or an environment variable."""

    source: str
    line: int | None = None

    def __str__(self) -> str:
        return self.source if self.line is None else f"{self.source}:{self.line}"

    @property
    def directory(self) -> Path:
        """The directory for relative file names; the working directory for anything but a file."""
        return Path(self.source).parent


@dataclass(frozen=True, slots=True)
class Node:
    """One value, equal to the same one elsewhere. The place of a mapping's entry is that of its key."""

    value: "bool | int | float | str | dict[str, Node] | list[Node] | None"
    place: Place = field(compare=False)

    def child(self, step: PathStep) -> "Node | None":
        """Step down one level; `None` without such an entry."""
        match self.value, step:
            case dict() as entries, str():
                return entries.get(step)
            case list() as items, int() if step < len(items):
                return items[step]
            case _:
                return None

    def items(self, key: str | None = None) -> "list[Node]":
        """Return the entries of the list, or of the one below this key; nothing without a list."""
        node = self if key is None else self.child(key)
        return node.value if node is not None and isinstance(node.value, list) else []


def plain(node: Node) -> Json:
    """Strip the places."""
    match node.value:
        case dict() as entries:
            return {key: plain(entry) for key, entry in entries.items()}
        case list() as items:
            return [plain(item) for item in items]
        case scalar:
            return scalar


def written(value: object, place: Place) -> Node:
    """Give a plain JSON value one place. Raises `TypeError` for anything that is not JSON."""
    match value:
        case None | bool() | int() | float() | str():
            return Node(value, place)
        case Mapping():
            entries = cast("Mapping[object, object]", value)  # narrowed from object, whose items have no type
            return Node({str(key): written(entry, place) for key, entry in entries.items()}, place)
        case list() | tuple():
            items = cast("Sequence[object]", value)  # as above
            return Node([written(item, place) for item in items], place)
        case _:
            raise TypeError(f"{type(value).__name__} is not a value of a configuration")


def merged(below: Node, above: Node) -> Node:
    """Lay one tree over another: mappings are merged key by key, everything else is replaced."""
    if not isinstance(below.value, dict) or not isinstance(above.value, dict):
        return above
    old = below.value
    entries = {key: merged(old[key], entry) if key in old else entry for key, entry in above.value.items()}
    return Node({**old, **entries}, above.place)


def nearest(node: Node, path: Iterable[PathStep]) -> Node:
    """Follow the path as far as it was written."""
    for step in path:
        node = node.child(step) or node
    return node


def spelled(path: Iterable[PathStep]) -> str:
    """Write a path as people do: `criteria[0].expected`."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text


_PIPELINE_GRAPH = ("service", "processors", "extensions", "connectors")
_SECRET = ("headers", "auth", "tls")
_MOST_KNOWN = 50
# What other evaluation packages call our keys of a criterion and of an expected call; spelled without `_` and `-`.
_ELSEWHERE = {
    "pass_at": frozenset({"threshold", "passthreshold", "minscore", "passingscore"}),
    "evaluator": frozenset({"evaluatorname", "metric", "metricname", "scorer", "grader", "type"}),
    "expected": frozenset(
        {"expectedtools", "expectedcalls", "expectedtoolcalls", "expectedtooluse", "expectedtrajectory"}
        | {"referencetoolcalls", "referencetrajectory", "toolcalls"}
    ),
    "expected_output": frozenset(
        {"expectedanswer", "expectedresponse", "expectedfinalresponse", "referenceanswer", "groundtruth"}
    ),
    "sample": frozenset({"samplerate", "samplingrate"}),
    "when": frozenset({"filter", "filters", "match"}),
    "tools": frozenset({"toolname", "toolnames"}),
    "args": frozenset({"arguments", "inputparameters", "toolinput", "toolargs", "parameters", "input"}),
    "name": frozenset({"criterionname", "tool", "toolname", "function"}),
    "id": frozenset({"toolcallid", "callid"}),
    "output": frozenset({"result", "tooloutput"}),
}


@dataclass(frozen=True, slots=True)
class Problem:
    """One complaint."""

    place: Place
    message: str
    hint: str | None = None

    def __str__(self) -> str:
        return f"{self.place}: {self.message}"


def config_error(problems: Sequence[Problem]) -> ConfigError:
    """Make one error of all problems (at least one)."""
    if len(problems) == 1:
        return ConfigError(str(problems[0]), hint=problems[0].hint)
    in_order = sorted(problems, key=lambda problem: (problem.place.source, problem.place.line or 0))
    lines = (f"  {problem}" + (f" ({problem.hint})" if problem.hint else "") for problem in in_order)
    return ConfigError("\n".join((f"{len(problems)} problems in the configuration", *lines)))


def suggestion(word: str, known: Iterable[str]) -> str | None:
    """Name the known word that was probably meant, else all known words."""
    words = sorted(known)
    # Singular for plural, such as `tool` for `tools`, says more than a word of other packages.
    meant = [name for name in words if name.rstrip("s") == word.rstrip("s")]
    meant += [name for name in _ELSEWHERE if name in words and _is_elsewhere(word, name)]
    # A shared prefix such as `default.` is left out: it would make any two short names similar.
    prefix = word[: word.rfind(".") + 1]
    bare = {name.removeprefix(prefix): name for name in words}
    meant += [bare[name] for name in get_close_matches(word.removeprefix(prefix), bare, n=1, cutoff=0.6)]
    if meant:
        return f"did you mean `{meant[0]}`?"
    return "known: " + ", ".join(f"`{name}`" for name in words[:_MOST_KNOWN]) if words else None


def _is_elsewhere(word: str, name: str) -> bool:
    return word.replace("_", "").replace("-", "").lower() in _ELSEWHERE.get(name, ())


@dataclass(frozen=True, slots=True, kw_only=True)
class Wording:
    """How to speak of what pydantic checked: `kind` of name, `owner` behind it, and names known besides the model's."""

    kind: str = "key"
    owner: str = ""
    known: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


def problems_of(
    error: ValidationError, node: Node, model: type[BaseModel], wording: Wording = Wording()
) -> tuple[Problem, ...]:
    """Turn the errors of pydantic about the values at `node` into problems in our words: one for a value that may be of several kinds."""
    found: dict[tuple[Place, str, str | None], list[str]] = {}
    for details in error.errors(include_url=False):
        place, name, complaint, hint = _problem(details, node, model, wording)
        complaints = found.setdefault((place, name, hint), [])
        if complaint not in complaints:
            complaints.append(complaint)
    problems: list[Problem] = []
    for (place, name, hint), complaints in found.items():
        *others, last = (each.rpartition("; allowed: ")[2].removeprefix(_MUST).strip() for each in complaints)
        complaint = f"{_MUST}{', '.join(others)} or {last}" if others else complaints[0]
        problems.append(Problem(place, f"{name}{complaint}", hint))
    return tuple(problems)


_MUST = " must be "
_NUMBER, _WHOLE = "must be a number", "must be a whole number"
# By the type of error in pydantic; braces hold what the error has for them. Others read well without its first word.
_COMPLAINTS = {
    **dict.fromkeys(("float_parsing", "float_type"), _NUMBER),
    **dict.fromkeys(("int_parsing", "int_parsing_size", "int_type", "int_from_float"), _WHOLE),
    **dict.fromkeys(("model_type", "model_attributes_type", "dict_type"), "must be a mapping of keys to values"),
    **dict.fromkeys(("tuple_type", "list_type", "set_type", "frozen_set_type"), "must be a list"),
    **dict.fromkeys(("bool_parsing", "bool_type"), "must be `true` or `false`"),
    **dict.fromkeys(("string_type", "bytes_type"), "must be text"),
    "missing": "is missing",
    "string_pattern_mismatch": "must match `{pattern}`",
    "string_too_short": "must have at least {min_length} characters",
    "too_short": "must have at least {min_length} entries",
    "too_long": "must have at most {max_length} entries",
    "union_tag_not_found": "needs {discriminator}",
    "union_tag_invalid": "has `{tag}` as {discriminator}; allowed: {expected_tags}",
}


def _problem(
    details: ErrorDetails, node: Node, model: type[BaseModel], wording: Wording
) -> tuple[Place, str, str, str | None]:
    """Return the place, name, complaint and hint of one error."""
    # The path as it was written: pydantic also counts where one mapping stands for a list, and names members of unions.
    path: list[PathStep] = []
    below = node
    for number, step in enumerate(details["loc"]):
        child = below.child(step)
        is_absent_key = number == len(details["loc"]) - 1 and details["type"] in ("missing", "extra_forbidden")
        if child is not None or (is_absent_key and isinstance(step, str) and isinstance(below.value, dict)):
            path.append(step)
            below = child or below
    place = nearest(node, path).place
    if details["type"] == "extra_forbidden":
        message = f"unknown {wording.kind} `{spelled(path)}`{wording.owner}"
        return place, message, "", _hint_for_key(model, path, details["loc"], wording)
    owner_alone = wording.owner.strip().partition(" ")[2] or "the configuration"
    name = f"`{spelled(path)}`{wording.owner}" if path else owner_alone
    kind, context, hint = details["type"], details.get("ctx", {}), None
    if kind == "missing" and model.model_config.get("extra") == "allow" and isinstance(node.value, dict):
        # Keys that are not allowed have complaints of their own.
        others = [known for known in node.value if known not in model.model_fields]
        meant = [known for known in others if _is_elsewhere(known, str(path[-1]))]
        meant += get_close_matches(str(path[-1]), others, n=1)
        hint = f"is `{meant[0]}` meant to be `{path[-1]}`?" if meant else None
    if kind in ("literal_error", "enum"):
        complaint = _not_allowed(details["input"], path, context)
    elif kind in ("value_error", "assertion_error"):
        complaint = details["msg"].partition(", ")[2]
        error = context.get("error")
        hint = error.hint if isinstance(error, UnitError) else None
    elif context.get("min_length") == 1:
        complaint = "must not be empty"
    else:
        message = details["msg"].removeprefix("Input ").removeprefix("String ").replace("should ", "must ")
        complaint = _COMPLAINTS[kind].format(**context) if kind in _COMPLAINTS else message[:1].lower() + message[1:]
        complaint = complaint.replace("'", "`") + (_limits(model, path) if complaint in (_NUMBER, _WHOLE) else "")
    return place, name, f" {complaint}", hint


def _not_allowed(value: object, path: Sequence[PathStep], context: Mapping[str, object]) -> str:
    """Write which words are allowed in place of a value; one that may be a secret is not repeated."""
    if value is None:
        given = "is empty"
    elif any(step in _SECRET for step in path) or not isinstance(value, str | int | float):
        given = "is something else"
    else:
        given = f"is `{str(value)[:60]}`"
    return f"{given}; allowed: {str(context.get('expected', '')).replace(' or ', ', ')}".replace("'", "`")


def _hint_for_key(
    model: type[BaseModel], path: Sequence[PathStep], found_at: Sequence[PathStep], wording: Wording
) -> str | None:
    key = str(path[-1]) if path else ""
    if len(path) == 1 and key in _PIPELINE_GRAPH and "receivers" in model.model_fields:
        return "toolgauge is one box and has no pipeline graph; see `toolgauge validate --print`"
    parents = _parents(model, found_at)
    known = [field.alias or name for parent in parents for name, field in parent.model_fields.items()]
    if parents == [model]:
        known += wording.known
    return suggestion(key, (name for name in known if name not in wording.unknown))


def _parents(model: type[BaseModel], path: Sequence[PathStep]) -> list[type[BaseModel]]:
    """Return the models that may hold the last key of a path: a field may hold several, for a union without a tag."""
    parents = [model]
    for step in path[:-1]:
        fields = (pair for parent in parents for pair in parent.model_fields.items())
        annotations = [field.annotation for name, field in fields if step in (field.alias, name)]
        below = [one for annotation in annotations for one in _models(annotation)]
        tagged = [one for one in parents if any(step in get_args(f.annotation) for f in one.model_fields.values())]
        parents = below or tagged or parents
    return parents


def _limits(model: type[BaseModel], path: Sequence[PathStep]) -> str:
    """Write the least and the greatest number that a key takes, where both are known: ` from 0 to 1`."""
    fields = (field for one in _parents(model, path) for name, field in one.model_fields.items() if name in path[-1:])
    metadata = [one for field in fields for one in field.metadata]
    limits: dict[str, object] = {
        key: getattr(one, key) for one in metadata for key in ("ge", "le") if hasattr(one, key)
    }
    return f" from {limits['ge']} to {limits['le']}" if len(limits) > 1 else ""


def _models(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, RootModel):
        yield from _models(annotation.model_fields["root"].annotation)  # Has no keys of its own
    elif isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models(argument)
