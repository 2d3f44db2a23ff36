"""What `import toolgauge` declares: a small list, the same for Python and for type checkers, loaded when it is asked for."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import toolgauge

STUB = Path(toolgauge.__file__).with_suffix(".pyi")
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
    "evaluate",
}


def test_the_declared_surface_is_this_list():
    assert set(toolgauge.__all__) == DECLARED


def test_the_stub_has_the_same_names_from_the_same_modules():
    tree = ast.parse(STUB.read_text())
    declared = next(node for node in tree.body if isinstance(node, ast.Assign))
    assert ast.literal_eval(declared.value) == sorted(DECLARED)
    modules = {
        alias.asname: node.module for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    assert modules == toolgauge._MODULES  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue, reportUnknownMemberType]


def test_each_name_loads_and_is_listed():
    for name in DECLARED:
        assert getattr(toolgauge, name).__name__ == name
        assert name in dir(toolgauge)


def test_another_name_is_no_attribute():
    with pytest.raises(AttributeError, match="module `toolgauge` has no attribute `evaluat`"):
        getattr(toolgauge, "evaluat")  # noqa: B009 # a type checker knows that it is none


def test_the_package_is_typed():
    assert STUB.with_name("py.typed").is_file()


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
