import importlib
import json
import sys
from pathlib import Path
from typing import Protocol

import pytest

from toolgauge import plugins
from toolgauge.model.errors import ConfigError
from toolgauge.service.configuration import load_configuration
from toolgauge.service.destinations import announced_destinations, destination_names

WHOLE = """
class Whole:
    name, rank, marks, scopes = "whole", 1, ("whole.",), ()
    version, level = "1", "call"
    def claims(self, record): return False
    def read(self, record): return iter(())
    def attribute(self, record, key): return None
    def evaluate(self, trajectory, expected): return iter(())
"""
EXPORTER = """
from pydantic import BaseModel
class ToNowhere:
    class Settings(BaseModel): pass
    async def start(self): pass
    async def send(self, signal, body): pass
    async def close(self): pass
"""


class Install(Protocol):
    def __call__(self, package: str, entry_points: str, source: str = ...) -> None: ...


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Put a package with one module and its entry points on the path."""

    def install_package(package: str, entry_points: str, source: str = WHOLE) -> None:
        folder = tmp_path / package
        metadata = folder / f"{package}-1.0.dist-info"
        metadata.mkdir(parents=True)
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (metadata / "entry_points.txt").write_text(entry_points)
        (folder / f"{package}_module.py").write_text(source)
        monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
        # Else a module of another test with this name is found.
        sys.modules.pop(f"{package}_module", None)
        importlib.invalidate_caches()

    return install_package


def test_dialects_come_in_the_order_in_which_they_are_asked(install: Install):
    install("stranger", "[toolgauge.dialects]\nwhole = stranger_module:Whole\n")

    loaded = plugins.dialects()

    assert loaded[0].name == "whole"
    assert [dialect.rank for dialect in loaded] == sorted(dialect.rank for dialect in loaded)


def test_a_strangers_evaluator_is_found_by_name(install: Install):
    install("stranger", "[toolgauge.evaluators]\nwhole = stranger_module:Whole\n")

    assert plugins.evaluator("whole").__name__ == "Whole"


def test_a_strangers_exporter_is_a_destination(install: Install):
    install("stranger", "[toolgauge.exporters]\nwhole = stranger_module:ToNowhere\n", EXPORTER)
    config, _ = load_configuration((), ("exporters.whole={}",))
    assert destination_names(config) == ["`whole`"]


def test_a_recording_is_announced_as_a_destination():
    config, _ = load_configuration((), ("exporters.file.path=traffic.otlp",))
    assert announced_destinations(config) == ["the file `traffic.otlp` (requests as received)"]
    assert destination_names(config) == []


def test_an_unknown_evaluator_is_an_error_that_tells_what_is_known():
    with pytest.raises(ConfigError) as caught:
        plugins.evaluator("tool_call_arg")

    assert caught.value.message == "no evaluator called `tool_call_arg`"
    assert caught.value.hint is not None
    assert "`known_tool`" in caught.value.hint


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("import no_such_module_anywhere", "ModuleNotFoundError"),
        ("raise RuntimeError('broken inside')", "RuntimeError: broken inside"),
        ("this is no python", "SyntaxError"),
        ("Other = 1", "AttributeError"),
        ("class Whole:\n    def __init__(self): raise ValueError('not today')", "ValueError: not today"),
    ],
)
def test_a_plug_in_that_does_not_load_is_named(install: Install, source: str, reason: str):
    install("broken", "[toolgauge.dialects]\nbroken = broken_module:Whole\n", source)

    with pytest.raises(ConfigError) as caught:
        plugins.dialects()

    assert caught.value.message.startswith("cannot load dialect `broken` (`broken_module:Whole` of broken): ")
    assert reason in caught.value.message


@pytest.mark.parametrize("error", ["SystemExit(0)", "GeneratorExit", "BaseException"])
def test_a_plug_in_that_ends_the_process_as_it_is_loaded_is_named(install: Install, error: str):
    install("ending", "[toolgauge.dialects]\nending = ending_module:Whole\n", f"raise {error}")
    with pytest.raises(ConfigError, match="cannot load dialect `ending`"):
        plugins.dialects()


def test_a_dialect_that_lacks_something_is_named(install: Install):
    install("partial", "[toolgauge.dialects]\npartial = partial_module:Whole\n", "class Whole:\n    name = 'partial'\n")

    with pytest.raises(ConfigError, match=r"dialect `partial` .* has no `rank`, `marks`"):
        plugins.dialects()


def test_something_that_is_no_evaluator_is_named(install: Install):
    install("odd", "[toolgauge.evaluators]\nodd = odd_module:evaluate\n", "def evaluate(): pass\n")

    with pytest.raises(ConfigError, match="evaluator `odd` is not a class with `version`, `level`, `evaluate`"):
        plugins.evaluator("odd")


def test_a_name_that_two_packages_offer_is_an_error(install: Install):
    install("one", "[toolgauge.evaluators]\nwhole = one_module:Whole\n")
    install("two", "[toolgauge.evaluators]\nwhole = two_module:Whole\n")

    with pytest.raises(ConfigError) as caught:
        plugins.evaluator("whole")

    assert caught.value.message == (
        "evaluator `whole` is offered twice: "
        "`whole` (`one_module:Whole` of one) and `whole` (`two_module:Whole` of two)"
    )


@pytest.mark.needs("kafka")
def test_a_plug_in_whose_extra_is_not_installed_names_it(monkeypatch: pytest.MonkeyPatch):
    assert plugins.missing_extra(plugins.EXPORTERS, "kafka") is None
    monkeypatch.setattr(plugins, "find_spec", dict[str, None]().get)
    assert plugins.missing_extra(plugins.EXPORTERS, "kafka") == "kafka"
    assert plugins.missing_extra(plugins.EXPORTERS, "prometheus") is None


@pytest.mark.parametrize("source", ["clone", "toolgauge-0.1.0-py3-none-any.whl"])
def test_an_extra_is_installed_from_where_toolgauge_came_from(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    metadata = tmp_path / "toolgauge-0.1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: toolgauge\nVersion: 0.1.0\n")
    (metadata / "direct_url.json").write_text(json.dumps({"url": (tmp_path / source).as_uri()}))
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr(sys, "executable", "/agent/.venv/bin/python")
    command = "python3 -m pip --python /agent/.venv/bin/python install"
    assert plugins.install_hint("judge") == f"in a clone of toolgauge: `{command} '.[judge]'`"
    (tmp_path / source).touch()
    assert plugins.install_hint("judge") == f"`{command} '{tmp_path}/{source}[judge]'`"
    (metadata / "direct_url.json").unlink()
    assert plugins.install_hint("judge") == f"in a clone of toolgauge: `{command} '.[judge]'`"
