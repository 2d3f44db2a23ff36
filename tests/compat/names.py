"""The names that users may rely on (`docs/deploying.md`, "Compatibility"), frozen in `names.txt`: a line each, with its kind.

    python -m tests.compat.names --write    # add the names of the tree; part of a release

A name leaves `names.txt` by hand, after its deprecation.
"""

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import click

import toolgauge
from tests.page_commands import PAGES
from tests.walk.support import Walk
from toolgauge import evaluators, plugins
from toolgauge.cli.main import ALIASES, commands
from toolgauge.config.editor_schema import config_schema, criteria_schema, reference_schema
from toolgauge.model import ports
from toolgauge.service.process import measure_process

FROZEN = Path(__file__).with_name("names.txt")
_GROUPS = (plugins.DIALECTS, plugins.EVALUATORS, plugins.EXPORTERS, plugins.RECEIVERS)
_CHECKS = (
    "dialects.check_dialect",
    "evaluators.check_evaluator",
    "exporters.check_exporter",
    "receivers.check_receiver",
)
_PORTS = (ports.Dialect, ports.Remembering, ports.Evaluator, ports.Exporter, ports.Receiver)


def frozen() -> set[str]:
    """Read the names that earlier releases had."""
    return set(FROZEN.read_text().splitlines())


def current() -> set[str]:
    """Collect the names of the tree."""
    schemas = {"config": config_schema(), "criteria": criteria_schema(), "cases": reference_schema()}
    return {
        *(f"python toolgauge.{name}" for name in (*toolgauge.__all__, "evaluate")),
        *(f"python toolgauge.evaluators.{name}" for name in evaluators.__all__),
        *(f"python toolgauge.in_process.{name}" for name in ("ToolgaugeSpanExporter",) if _exists("in_process", name)),
        *(f"python toolgauge.testing.{one}" for one in _CHECKS if _exists(f"testing.{one.split('.')[0]}", one.split(".")[1])),
        *(f"python toolgauge.recognize.{module}.{name}" for module, name in readers()),
        *_port_members(),
        *(f"plug-in {group} {name}" for group in _GROUPS for name in plugins.names(group)),
        *(f"parameter {name}.{field}" for name in plugins.names(plugins.EVALUATORS) for field in _fields(name)),
        *_command_words("command toolgauge", commands),
        *_metrics(),
        *(f"attribute {name}" for name in re.findall(r"`((?:toolgauge|gen_ai\.evaluation)\.[a-z_.]+)`", PAGES["docs/output.md"])),
        *(f"{file} {key}" for file, schema in schemas.items() for key in _keys(schema, schema, "", ())),
    }  # fmt: skip


def readers() -> Iterator[tuple[str, str]]:
    """Yield the readers that `docs/plugins.md` offers to dialects, by module."""
    table = PAGES["docs/plugins.md"].partition("## What a plug-in may import")[2].partition("## ")[0]
    for module, cell in re.findall(r"^\| `toolgauge\.recognize\.(\w+)` \| (.*) \|$", table, re.MULTILINE):
        for name in re.findall(r"`(\w+)(?:\([^`]*)?`", cell):
            yield module, name


def _exists(module: str, name: str) -> bool:
    return hasattr(import_module(f"toolgauge.{module}"), name)


def _fields(evaluator: str) -> Iterable[str]:
    return cast("dict[str, object]", getattr(plugins.evaluator(evaluator), "model_fields", {}))


def _port_members() -> Iterator[str]:
    for port in _PORTS:
        members = {*vars(port), *vars(port).get("__annotations__", {})}
        yield from (f"port {port.__name__}.{name}" for name in members if not name.startswith("_"))


def _command_words(path: str, command: click.Command) -> Iterator[str]:
    yield path
    yield from (
        f"{path} {word}" for option in command.params if not getattr(option, "hidden", False) for word in _words(option)
    )
    if isinstance(command, click.Group):
        context = click.Context(command)
        # Earlier commands take the options of the one that took them over, and those that have another name there.
        for name in (*command.list_commands(context), *ALIASES):
            found = command.get_command(context, name)
            assert found
            yield from _command_words(f"{path} {name}", found)
            yield from (f"{path} {name} {option}" for option in (ALIASES[name].renamed if name in ALIASES else ()))


def _words(option: click.Parameter) -> list[str]:
    return [*option.opts, *option.secondary_opts] if isinstance(option, click.Option) else []


def _metrics() -> Iterator[str]:
    registry = Walk().registry
    measure_process(registry)
    for metric in registry:
        yield f"metric {metric.name}"
        yield from (f"metric {metric.name} {label}" for label in metric.labels)


def _keys(schema: Mapping[str, Any], root: Mapping[str, Any], path: str, seen: tuple[str, ...]) -> Iterator[str]:
    reference = str(schema.get("$ref", ""))
    if reference and reference not in seen:
        target = root
        for step in reference.removeprefix("#/").split("/"):
            target = target[step]
        yield from _keys(target, root, path, (*seen, reference))
    for key, inner in cast("Mapping[str, Any]", schema.get("properties", {})).items():
        yield f"{path}{key}"
        yield from _keys(inner, root, f"{path}{key}.", seen)
    alternatives = [one for word in ("anyOf", "oneOf", "allOf") for one in schema.get(word, ())]
    for inner in (*alternatives, schema.get("items"), schema.get("additionalProperties")):
        if isinstance(inner, Mapping):
            yield from _keys(cast("Mapping[str, Any]", inner), root, path, seen)


if __name__ == "__main__":
    names = sorted((frozen() if FROZEN.exists() else set[str]()) | current())
    if "--write" in sys.argv[1:]:
        FROZEN.write_text("".join(f"{name}\n" for name in names))
    print(len(names), "names")
