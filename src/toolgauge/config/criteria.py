"""Criteria as written, inline and in files, with all checks that need no evaluator.

Other keys are parameters of the evaluator and keep their lines: only `service` knows the evaluators.
"""

import contextlib
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, ValidationError, model_validator

from toolgauge.config.model import Config, Defaults
from toolgauge.config.parse import files_matching, parse_yaml, read_file
from toolgauge.config.problems import (
    Node,
    PathStep,
    Place,
    Problem,
    Wording,
    config_error,
    merged,
    nearest,
    plain,
    problems_of,
    written,
)
from toolgauge.config.references import (
    ExpectedItems,
    References,
    expected_answer,
    expected_json,
    expected_of,
    read_references,
)
from toolgauge.model.errors import ConfigError
from toolgauge.model.expected import Expected
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.judging import JudgeEvaluator
from toolgauge.model.outcomes import Enforce
from toolgauge.model.ports import Evaluator
from toolgauge.model.trajectory import TrajectoryScope
from toolgauge.settings import Section, file_path

_NAMED = re.compile(r"(?P<file>[^\r\n]*\.py)(?::(?P<name>[^\r\n:/\\]*))?\Z")
# The pattern that editors check.
NAMED_CLASS = r"^[^/~:\\][^:]*\.py:[A-Za-z_][A-Za-z0-9_]*$"
_KIND = ("criteria file", "criteria_files")
# In the state directory: criteria that people adopted in the web view.
LEARNED_FILE = "learned.yaml"
_HOW = "write `./checks.py:ClassName`, relative to the file of the criterion"


@dataclass(frozen=True, slots=True)
class EvaluatorFile:
    """A class in a file."""

    path: Path
    class_name: str


def evaluator_file(criterion: Node) -> EvaluatorFile | Problem | None:
    """Return the class that a criterion names, or why that cannot be; `None` where its evaluator is an installed one."""
    node = criterion.child("evaluator")
    found = _NAMED.match(node.value) if node is not None and isinstance(node.value, str) else None
    if node is None or found is None:
        return None
    place, file, name = node.place, found["file"], found["name"]
    if "://" in file:
        return Problem(place, f"evaluator `{node.value}` is not on this machine", _HOW)
    if PurePosixPath(file).is_absolute() or PureWindowsPath(file).drive or file.startswith("~"):
        return Problem(place, f"the path of evaluator `{node.value}` is not relative", _HOW)
    if not name:
        return Problem(place, f"evaluator `{node.value}` names no class", _HOW)
    if place.line is None or not Path(place.source).is_file():
        # An option, the environment, or text that came over a network.
        message = f"evaluator `{node.value}` is a file: only criteria in local files may name one"
        return Problem(place, message, "in Python, import the class and give the criterion an object of it")
    return EvaluatorFile(place.directory / file, name)


# The default criteria by evaluator, and their settings. A failure that was made good is not counted against the agent, one repeat
# may be right, and so is giving up. Of runs without a call, and of how much was recorded, only the mean is of interest.
_PRESETS: Mapping[str, JsonObject] = {
    "tool_success": {"retries": "ignore"},
    "one_effect": {"pass_at": 0.5},
    "repeated_calls": {"pass_at": 0.5},
    "error_handling": {"pass_at": 0.5},
    "tool_use": {"pass_at": 0.0},
    "coverage": {"pass_at": 0.0},
}
DEFAULT_CRITERIA: Mapping[str, JsonObject] = {
    name: _PRESETS.get(name, {}) for name in Defaults.model_fields if name not in ("enabled", "scope")
}


def _scalar(value: object) -> object:
    if not isinstance(value, str | int | float):
        raise ValueError("must be a text, a number or a truth value")
    return value


Scalar = Annotated[str | int | float | bool, BeforeValidator(_scalar)]


class When(Section):
    """Selects trajectories for a criterion: all keys must match, an absent one always does. Globs, but for attributes."""

    service: str | None = None
    agent: str | None = None
    attributes: dict[str, Scalar] = Field(default_factory=dict[str, Scalar])
    case: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CriterionConfig:
    """One criterion. At most one of `expected` and `references` is given."""

    name: str
    evaluator: str
    when: When
    scope: TrajectoryScope
    expected: Expected | None
    references: References | None
    pass_at: float
    sample: float
    enforce: Enforce
    notify: bool
    # For the evaluator, as written.
    parameters: JsonObject
    node: Node = field(repr=False, compare=False)
    # The evaluator itself, where a program made it; the parameters are its fields then.
    made_evaluator: Evaluator | JudgeEvaluator | None = None

    @property
    def where(self) -> str:
        """File and line."""
        return str(self.node.place)

    def canonical(self) -> JsonObject:
        """Write the facts that decide about a score, with defaults spelled out; `sample`, `enforce` and `notify` change no revision."""
        reference: Json = None
        if self.references is not None:
            cases = self.references.cases.items()
            reference = {"key": self.references.key, "cases": {case: expected_json(entry) for case, entry in cases}}
        return {
            "name": self.name,
            "evaluator": self.evaluator,
            "when": self.when.model_dump(mode="json"),
            "scope": self.scope,
            "expected": None if self.expected is None else expected_json(self.expected),
            "reference": reference,
            "pass_at": self.pass_at,
            "parameters": self.parameters,
        }

    def measure(self, titled: Collection[str]) -> JsonObject:
        """Write the facts that decide about a value: `canonical` without the threshold and the titles of rules in `titled` parameters."""
        parameters: JsonObject = {
            key: [_untitled(rule) for rule in value] if key in titled and isinstance(value, list) else value
            for key, value in self.parameters.items()
        }
        return {**self.canonical(), "pass_at": None, "parameters": parameters}


def _untitled(rule: Json) -> Json:
    return {key: value for key, value in rule.items() if key != "name"} if isinstance(rule, dict) else rule


def _no_truth_value(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("must be a number")
    return value


class _Reference(Section):
    file: Annotated[str, Field(min_length=1)]
    key: Annotated[str, Field(min_length=1)]


class Criterion(BaseModel):
    """What a person writes about a criterion, beside the parameters of its evaluator."""

    model_config = ConfigDict(frozen=True, extra="allow", allow_inf_nan=False)

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_.-]{0,63}$")]
    evaluator: Annotated[str, Field(min_length=1)]
    when: When = When()
    scope: TrajectoryScope = "trace"
    expected: ExpectedItems | None = None
    expected_turns: tuple[ExpectedItems, ...] | None = None
    # What the agent should answer at the end, beside the calls or alone.
    expected_output: JsonValue = None
    reference: _Reference | None = None
    pass_at: Annotated[float, BeforeValidator(_no_truth_value), Field(ge=0, le=1)] = 1.0
    sample: Annotated[float, BeforeValidator(_no_truth_value), Field(gt=0, le=1)] = 1.0
    enforce: Literal["live", "shadow"] = "live"
    # Whether webhooks announce single runs that fail it.
    notify: bool = False

    @model_validator(mode="after")
    def _one_expectation(self) -> "Criterion":
        given = [key for key in ("expected", "expected_turns", "reference") if getattr(self, key) is not None]
        if len(given) > 1:
            raise ValueError("has " + " and ".join(f"`{key}`" for key in given) + ", of which only one can hold")
        if "expected_output" in self.model_fields_set and self.reference is not None:
            raise ValueError(
                "has `expected_output` and `reference`; with a reference it stands in each line of the file"
            )
        if self.when.case is not None and self.reference is None:
            raise ValueError("has `when.case`, which needs a `reference`: its key holds the case")
        return self


def read_criteria(
    config: Config, environment: Mapping[str, str], problems: list[Problem]
) -> tuple[CriterionConfig, ...]:
    """Read the criteria of a configuration, inline, from files, and adopted ones; return the valid ones, and add to `problems`."""
    files = [Path(name) for pattern in config.criteria_files for name in files_matching(pattern, *_KIND)]
    adopted = adopted_file(config)
    return read_nodes(config.criteria, files if adopted is None else [*files, adopted], environment, problems)


def adopted_file(config: Config) -> Path | None:
    """Return the file of the criteria that people adopted in the web view, if it exists."""
    path = None if config.state.directory is None else file_path(config.state.directory) / LEARNED_FILE
    return path if path is not None and path.is_file() else None


def criteria_problems(root: Node, patterns: Iterable[str], environment: Mapping[str, str]) -> tuple[Problem, ...]:
    """List the wrong keys and values of the criteria of a configuration that is wrong itself; `patterns` are of files."""
    problems: list[Problem] = []
    inline = _criteria_node(root)
    files: list[str] = []
    for pattern in patterns:
        # A file that is missing is an error of its own, once the configuration is right.
        with contextlib.suppress(ConfigError):
            files += files_matching(pattern, *_KIND)
    read_nodes(() if inline is None else inline.items(), map(Path, files), environment, problems)
    return tuple(problems)


def read_criterion(node: Node) -> CriterionConfig:
    """Read one criterion. Raises ConfigError with every problem found."""
    problems: list[Problem] = []
    criteria = read_nodes([node], (), {}, problems)
    if problems:
        raise config_error(problems)
    return criteria[0]


def load_default_criteria(defaults: Defaults) -> tuple[CriterionConfig, ...]:
    """Read the criteria that need no reference and are on. Raises ConfigError with every problem found."""
    problems: list[Problem] = []
    nodes: list[Node] = []
    for evaluator, preset in DEFAULT_CRITERIA.items() if defaults.enabled else ():
        setting: bool | Node = getattr(defaults, evaluator)
        if setting is False:
            continue
        named: JsonObject = {"name": f"default.{evaluator}", "evaluator": evaluator}
        node = written({"scope": defaults.scope, **preset, **named}, Place("defaults"))
        if isinstance(setting, Node):
            problems += (
                Problem(nearest(setting, (key,)).place, f"`defaults.{evaluator}` cannot set `{key}`")
                for key in named
                if setting.child(key) is not None
            )
            node = merged(node, setting)
        nodes.append(node)
    criteria = read_nodes(nodes, (), {}, problems)
    if problems:
        raise config_error(problems)
    return criteria


def parameter_problems(
    criterion: CriterionConfig, evaluator: type[BaseModel], error: ValidationError
) -> tuple[Problem, ...]:
    """List the problems that an evaluator has with its parameters, with their places."""
    owner = f" of evaluator `{criterion.evaluator}` in criterion `{criterion.name}`"
    keys = tuple(Criterion.model_fields)
    wording = Wording(kind="parameter", owner=owner, known=keys, unknown=("version", "level"))
    return problems_of(error, criterion.node, evaluator, wording)


def criterion_problem(
    criterion: CriterionConfig, message: str, hint: str | None = None, at: tuple[PathStep, ...] = ()
) -> Problem:
    """Make a problem of a criterion, at one of its keys where given."""
    return Problem(nearest(criterion.node, at).place, message, hint)


def read_nodes(
    inline: Iterable[Node], files: Iterable[Path], environment: Mapping[str, str], problems: list[Problem]
) -> tuple[CriterionConfig, ...]:
    """Read criteria inline and from files; return the valid ones, and add to `problems`."""
    nodes = [*inline]
    for file in dict.fromkeys(files):
        nodes.extend(_nodes(file, environment, problems))
    first: dict[str, Place] = {}
    # A reference file that several criteria name is read once.
    cases: dict[Path, Mapping[str, Expected]] = {}
    read: list[CriterionConfig] = []
    for node in nodes:
        criterion = _criterion(node, cases, problems)
        # A criterion that is wrong otherwise has a name, too.
        written = node.child("name")
        name = None if written is None else written.value
        if isinstance(name, str) and name in first:
            problems.append(Problem(node.place, f"criterion `{name[:64]}` is given twice, first at {first[name]}"))
        elif isinstance(name, str):
            first[name] = node.place
        if criterion is not None:
            read.append(criterion)
    return tuple(read)


def _nodes(file: Path, environment: Mapping[str, str], problems: list[Problem]) -> list[Node]:
    root = parse_yaml(read_file(file), str(file), environment)
    if isinstance(root.value, dict):
        hint = "its keys are `criteria` and `tools`; what has more is a configuration, for `--config`"
        unknown = [key for key in root.value if key not in ("criteria", "tools")]
        problems += (Problem(root.value[key].place, f"unknown key `{key}` in a criteria file", hint) for key in unknown)
        criteria = _criteria_node(root)
        if criteria is None and (unknown or "tools" in root.value):
            return []
        root = criteria or root
    if not isinstance(root.value, list):
        problems.append(Problem(root.place, "a criteria file must be `criteria: [...]` or a list of criteria"))
        return []
    return root.value


def _criteria_node(root: Node) -> Node | None:
    """Return the criteria of a file. A misspelt key is a problem by itself, and hides no problem of its criteria."""
    if not isinstance(root.value, dict):
        return None
    # `criteria_files` of a configuration is not a misspelling.
    keys = [key for key in root.value if key != "criteria_files"]
    meant = ["criteria"] if "criteria" in keys else get_close_matches("criteria", keys, n=1)
    return root.value[meant[0]] if meant else None


def _criterion(
    node: Node, cases: dict[Path, Mapping[str, Expected]], problems: list[Problem]
) -> CriterionConfig | None:
    values = plain(node)
    if not isinstance(values, dict):
        problems.append(Problem(node.place, "a criterion must be a mapping of keys to values"))
        return None
    try:
        read = Criterion.model_validate(values)
    except ValidationError as error:
        name = values.get("name")
        owner = f" in criterion `{name[:64]}`" if isinstance(name, str) else " in a criterion"
        problems.extend(problems_of(error, node, Criterion, Wording(owner=owner)))
        return None
    references = None
    if read.reference is not None:
        place = nearest(node, ("reference", "file")).place
        path = place.directory / read.reference.file
        if path not in cases:
            cases[path] = {}
            try:
                cases[path], found = read_references(read_file(path), str(path))
            except ConfigError as error:
                found = (Problem(place, error.message, error.hint),)
            problems.extend(found)
            if not cases[path] and not found:
                problems.append(Problem(place, f"`{path}` holds no reference"))
        references = References(file=path, key=read.reference.key, cases=cases[path])
    return CriterionConfig(
        name=read.name,
        evaluator=read.evaluator,
        when=read.when,
        scope=read.scope,
        expected=expected_of(read.expected, read.expected_turns, expected_answer(read)),
        references=references,
        pass_at=read.pass_at,
        sample=read.sample,
        enforce=read.enforce,
        notify=read.notify,
        parameters={key: value for key, value in values.items() if key not in Criterion.model_fields},
        node=node,
    )
