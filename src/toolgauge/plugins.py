"""Finds plug-ins: entry points of installed packages. Built-in ones come the same way as plug-ins of other packages.

This is the only place where a name becomes a class. A plug-in that cannot be loaded ends the start with an error
that names it and its package: running on without it would mean spans that silently go unread.
"""

import hashlib
import json
import shlex
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from importlib.metadata import Distribution, EntryPoint, distribution, entry_points
from importlib.util import find_spec
from pathlib import Path
from traceback import extract_tb
from types import ModuleType
from typing import Any, cast
from urllib.parse import unquote, urlsplit

from pydantic import ValidationError

from toolgauge.model.errors import ConfigError, is_interrupt
from toolgauge.model.ports import Dialect

DIALECTS = "toolgauge.dialects"
EVALUATORS = "toolgauge.evaluators"
JUDGES = "toolgauge.judges"
EXPRESSIONS = "toolgauge.expressions"
RECEIVERS = "toolgauge.receivers"
EXPORTERS = "toolgauge.exporters"

# Ours, which the configuration has sections for in any case.
_BUILT_IN = frozenset({"file", "kafka", "otlp", "otlp_grpc", "otlp_http", "prometheus"})
_EVALUATOR_MEMBERS = ("version", "level", "evaluate")
# An evaluator that asks a judge says what to ask and what an answer means instead of yielding outcomes itself.
_JUDGE_EVALUATOR_MEMBERS = ("version", "level", "questions", "outcome", "joined")
_LEVELS = ("call", "trajectory")
_DIALECT_MEMBERS = ("name", "rank", "marks", "scopes", "claims", "read", "attribute")


def _points(group: str) -> tuple[EntryPoint, ...]:
    return _installed(tuple(sys.path)).get(group, ())


# Reading the metadata of all packages takes 10 ms or more, and a start asks for each criterion.
@lru_cache(maxsize=1)
def _installed(_path: tuple[str, ...]) -> dict[str, tuple[EntryPoint, ...]]:
    groups = (DIALECTS, EVALUATORS, JUDGES, EXPRESSIONS, RECEIVERS, EXPORTERS)
    found = entry_points()
    return {group: tuple(found.select(group=group)) for group in groups}


def names(group: str) -> tuple[str, ...]:
    """Name all plug-ins of a group, sorted, without loading them."""
    return tuple(sorted({point.name for point in _points(group)}))


def missing_extra(group: str, name: str) -> str | None:
    """Return the extra without which this plug-in cannot be loaded, where it is not installed."""
    is_kafka = name == "kafka" and group in (EXPORTERS, RECEIVERS)
    return "kafka" if is_kafka and find_spec("confluent_kafka") is None else None


def install_hint(extra: str) -> str:
    """Write the command that adds an extra of toolgauge to this environment, from the clone or wheel it was installed from."""
    origin = distribution("toolgauge").read_text("direct_url.json")
    source = "" if origin is None else unquote(urlsplit(str(json.loads(origin)["url"])).path)
    is_there = bool(source) and Path(source).exists()
    words = ("python3", "-m", "pip", "--python", sys.executable, "install", f"{source if is_there else '.'}[{extra}]")
    return f"{'' if is_there else 'in a clone of toolgauge: '}`{shlex.join(words)}`"


def load(group: str, name: str) -> Any:  # noqa: ANN401 - callers check the plug-in
    """Load one plug-in; raise `ConfigError` for an unknown name, for two of one name, or if it does not load."""
    points = [point for point in _points(group) if point.name == name]
    if not points:
        kind = _kind(group)
        known = ", ".join(f"`{known}`" for known in names(group))
        raise ConfigError(f"no {kind} called `{name}`", hint=f"known {kind}s: {known or 'none'}")
    return _loaded(points)


def dialects() -> tuple[Dialect, ...]:
    """Load all dialects, in the order in which they are asked."""
    loaded: list[Dialect] = []
    for name in names(DIALECTS):
        points = [point for point in _points(DIALECTS) if point.name == name]
        made = _guarded(_loaded(points), points[0])
        missing = [member for member in _DIALECT_MEMBERS if not hasattr(made, member)]
        if missing:
            raise ConfigError(f"dialect {_place(points[0])} has no `{'`, `'.join(missing)}`")
        loaded.append(made)
    return tuple(sorted(loaded, key=lambda dialect: (dialect.rank, dialect.name)))


def evaluator(name: str) -> type:
    """Load the evaluator class of this name."""
    loaded = load(EVALUATORS, name)
    return _class(EVALUATORS, name, _JUDGE_EVALUATOR_MEMBERS if hasattr(loaded, "questions") else _EVALUATOR_MEMBERS)


def evaluator_name(made: type) -> str | None:
    """Return the name under which an evaluator class is installed; `None` where it is not."""
    value = f"{made.__module__}:{made.__qualname__}"
    return next((point.name for point in _points(EVALUATORS) if point.value == value), None)


def evaluator_fault(made: object) -> str | None:
    """Return why an object is not an evaluator, as the end of a sentence about it; `None` where it is one."""
    members = _JUDGE_EVALUATOR_MEMBERS if hasattr(made, "questions") else _EVALUATOR_MEMBERS
    missing = [member for member in members if not hasattr(made, member)]
    if missing:
        return f"has no `{'`, `'.join(missing)}`"
    level: object = getattr(made, "level", None)
    if level not in _LEVELS:
        return f"has a `level` that is neither `{'` nor `'.join(_LEVELS)}`"
    return None if isinstance(getattr(made, "version", None), str) else "has a `version` that is no text"


def load_file(path: Path) -> ModuleType:
    """Run a Python file as a module, without byte code, which could be stale; raise `ConfigError` where that fails."""
    if not path.is_file():
        raise ConfigError(f"no such file: `{path}`")
    digest = hashlib.sha256(str(path.resolve()).encode("utf-8", "backslashreplace")).hexdigest()
    module = ModuleType(f"toolgauge_file_{digest[:12]}")
    module.__file__ = str(path)
    # Data classes and pydantic look their module up while a class is made.
    before = sys.modules.get(module.__name__)
    sys.modules[module.__name__] = module
    try:
        with running(f"cannot load `{path}`"):
            exec(compile(path.read_bytes(), str(path), "exec"), module.__dict__)  # noqa: S102 # what the person asked for
    except ConfigError as failed:
        del sys.modules[module.__name__]
        if before is not None:
            sys.modules[module.__name__] = before
        error = failed.__cause__
        lines = [
            frame.lineno for frame in extract_tb(error.__traceback__ if error else None) if frame.filename == str(path)
        ]
        reason = f"{f'line {lines[-1]}: ' if lines else ''}{type(error).__name__}: {error_text(error) if error else ''}"
        if isinstance(error, OSError) and error.strerror:
            reason = error.strerror
        elif isinstance(error, SyntaxError):
            reason = f"line {error.lineno}: {error.msg}"
        raise ConfigError(f"cannot load `{path}`: {reason}") from error
    return module


@contextmanager
def running(fault: str, passes: tuple[type[Exception], ...] = ()) -> Generator[None]:
    """Run code of a plug-in; raise `ConfigError` for any exception except `passes`."""
    try:
        yield
    except passes:
        raise
    except BaseException as error:
        if is_interrupt(error):
            raise
        raise ConfigError(f"{fault}: {type(error).__name__}: {error_text(error)}") from error


def error_text(error: BaseException) -> str:
    """Return the text of an exception of a plug-in; for one of pydantic, which has several lines, the fields that it names."""
    if not isinstance(error, ValidationError):
        return str(error)
    fields = dict.fromkeys(".".join(map(str, each["loc"])) for each in error.errors(include_url=False))
    return f"`{error.title}` was made with wrong values for {', '.join(f'`{field}`' for field in fields)}"


def classes_of(module: ModuleType) -> dict[str, type]:
    """Return the classes that a module defines and that look like evaluators."""
    return {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, type)
        and value.__module__ == module.__name__
        and (hasattr(value, "evaluate") or hasattr(value, "questions"))
    }


def additional(group: str) -> tuple[str, ...]:
    """Name the receivers or exporters that other packages bring, without loading them."""
    return tuple(name for name in names(group) if name not in _BUILT_IN)


def receiver(name: str) -> type[Any]:
    """Load the receiver class of this name."""
    return _class(RECEIVERS, name, ("Settings", "start", "stop"))


def exporter(name: str) -> type[Any]:
    """Load the exporter class of this name."""
    return _class(EXPORTERS, name, ("Settings", "start", "send", "close"))


def _class(group: str, name: str, members: tuple[str, ...]) -> type[Any]:
    loaded = load(group, name)
    if not isinstance(loaded, type) or not all(hasattr(loaded, member) for member in members):
        raise ConfigError(f"{_kind(group)} `{name}` is not a class with `{'`, `'.join(members)}`")
    if "Settings" in members and not hasattr(cast("Any", loaded).Settings, "model_validate"):
        raise ConfigError(f"the `Settings` of {_kind(group)} `{name}` are not a pydantic model")
    return cast("type[Any]", loaded)


def _loaded(points: Sequence[EntryPoint]) -> Any:  # noqa: ANN401 - see `load`
    point = points[0]
    if len({point.value for point in points}) > 1:
        places = " and ".join(sorted(_place(point) for point in points))
        kind = _kind(point.group)
        raise ConfigError(f"{kind} `{point.name}` is offered twice: {places}", hint="uninstall one of the packages")
    return _guarded(point.load, point)


def _kind(group: str) -> str:
    return group.rpartition(".")[2].removesuffix("s")


def _guarded(make: Callable[[], Any], point: EntryPoint) -> Any:  # noqa: ANN401 - see `load`
    with running(f"cannot load {_kind(point.group)} {_place(point)}"):
        return make()


def _place(point: EntryPoint) -> str:
    return f"`{point.name}` (`{point.value}` of {_package(point.dist)})"


# A name is parsed out of the metadata each time, which takes longer than to load most plug-ins.
@lru_cache(maxsize=64)
def _package(installed: Distribution | None) -> str:
    return "unknown package" if installed is None else installed.name
