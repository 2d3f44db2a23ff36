"""What `import toolgauge` declares: a small list, the same for Python and for type checkers, loaded when it is asked for."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import toolgauge
from toolgauge import evaluators, on_demand, plugins

STUB = Path(toolgauge.__file__).with_suffix(".pyi")
EVALUATORS_STUB = Path(evaluators.__file__).with_suffix(".pyi")
DECLARED = {
    "ConfigError",
    "Criterion",
    "CriterionResult",
    "EvaluatedTrajectory",
    "Evaluation",
    "Expected",
    "NotEvaluated",
    "RecordingError",
    "Scored",
    "ToolCall",
    "ToolgaugeError",
    "Trajectory",
    "check",
    "evaluators",
    "mark",
}


def stub(file: Path) -> tuple[list[str], dict[str | None, str | None]]:
    """Read `__all__` of a stub, and the modules that its names are from."""
    tree = ast.parse(file.read_text())
    declared = next(node for node in tree.body if isinstance(node, ast.Assign))
    imported = [
        (alias.asname, node.module) for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names
    ]
    return ast.literal_eval(declared.value), dict(imported)


def test_the_declared_surface_is_this_list_for_python_and_for_type_checkers():
    assert set(toolgauge.__all__) == DECLARED
    assert stub(STUB) == (sorted(DECLARED), toolgauge._MODULES)  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue, reportUnknownMemberType]
    assert STUB.with_name("py.typed").is_file()
    for name in DECLARED:
        assert getattr(toolgauge, name).__name__.removeprefix("toolgauge.") == name
        assert name in dir(toolgauge)


def test_each_evaluator_of_ours_is_there_by_the_name_of_its_class():
    installed = {plugins.evaluator(name) for name in plugins.names(plugins.EVALUATORS) if "." not in name}
    ours = {made.__name__: made.__module__ for made in installed if made.__module__.startswith("toolgauge.evaluators.")}
    where = "name the class in `src/toolgauge/evaluators/__init__.py` and `__init__.pyi`; `python3 tests` installs entry points anew"
    assert stub(EVALUATORS_STUB) == (sorted(ours), ours), where
    assert set(evaluators.__all__) == set(ours), where
    assert {name: getattr(evaluators, name).__module__ for name in ours} == ours
    assert set(ours) <= set(dir(evaluators))


def test_the_libraries_on_demand_are_those_of_their_stub():
    tree = ast.parse(Path(on_demand.__file__).with_suffix(".pyi").read_text())
    imported = [alias.name for node in tree.body if isinstance(node, ast.Import) for alias in node.names]
    assert tuple(imported) == on_demand.NAMES
    assert [getattr(on_demand, name).__name__ for name in imported] == imported


def test_another_name_is_no_attribute():
    with pytest.raises(AttributeError, match="module `toolgauge` has no attribute `evaluat`"):
        getattr(toolgauge, "evaluat")  # noqa: B009 # a type checker knows that it is none


def test_importing_toolgauge_loads_nothing_heavy():
    code = "import sys, toolgauge; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    loaded = set(done.stdout.split())
    assert "toolgauge" in loaded
    assert not loaded & {
        "grpc",
        "pydantic",
        "msgspec",
        "opentelemetry",
        "google",
        "yaml",
        "jinja2",
        "aiohttp",
        "asyncio",
    }
