"""`toolgauge validate`: checks, describes and prints a configuration, and lists plug-ins."""

import inspect
import json
import os
from collections.abc import Sequence
from importlib.metadata import version
from typing import Literal

import click

from toolgauge import plugins
from toolgauge.cli.main import EXIT_CODES, configuration_options
from toolgauge.model.errors import ToolgaugeError
from toolgauge.model.json import JsonObject
from toolgauge.report.streams import echo


@click.command("validate", epilog=EXIT_CODES)
@configuration_options
@click.option(
    "--strict",
    is_flag=True,
    help="Exit with 1 where a certificate, key, authority or token file cannot be used on this machine.",
)
@click.option(
    "--schema",
    is_flag=False,
    flag_value="config",
    type=click.Choice(["config", "criteria", "cases"]),
    help="Print the JSON Schema (2020-12) of the configuration, of a criteria file, or of one line of a reference file, for "
    "editors: one with the YAML language server checks a file that begins with `# yaml-language-server: $schema=FILE`.",
)
@click.option("--print", "prints", is_flag=True, help="Print the configuration as YAML with every default written out.")
@click.option("--components", is_flag=True, help="List the dialects, evaluators, receivers and exporters.")
@click.option("--json", "as_json", is_flag=True, help="With --components: print one JSON object.")
def command(
    config_paths: Sequence[str],
    overrides: Sequence[str],
    schema: Literal["config", "criteria", "cases"] | None,
    *,
    strict: bool,
    prints: bool,
    components: bool,
    as_json: bool,
) -> int:
    """Check the configuration, the criteria, their references and the registered tools, and open no port.

    Everything is read exactly as `toolgauge serve` reads it. Problems are reported together, each with file and line:
    wrong keys, values, names and references of configuration and criteria, and, once the configuration itself is right,
    evaluators and parameters of the criteria that are right so far; registered tools come last. Certificates, keys and
    tokens may be on another machine: where they cannot be used, that is a warning.

    `--print` shows what `toolgauge serve` would run with: all files merged, `--set` and environment variables applied, secrets
    as `<redacted>`, criteria as they were written; those in files are named. `--components` lists those of other packages, too;
    one that cannot be loaded is listed with its error, and the exit code is then 1.
    """
    if (schema is not None) + prints + components > 1 or (as_json and not components):
        raise click.UsageError(
            "`--schema`, `--print` or `--components`, one of them; `--json` goes with `--components`"
        )
    if components:
        return _print_components(as_json=as_json)
    if schema is not None:
        from toolgauge.config.editor_schema import config_schema, criteria_schema, reference_schema

        make = {"config": config_schema, "criteria": criteria_schema, "cases": reference_schema}
        echo(json.dumps(make[schema](), indent=1, ensure_ascii=False))
        return 0
    if prints:
        from toolgauge.config.load import load, shown

        config = load(config_paths, overrides, os.environ, warn=_warn_of_variables)
        echo(shown(config), end="")
        return 0
    from toolgauge.cli.output import print_notes
    from toolgauge.config.tool_definitions import load_tool_definitions
    from toolgauge.service.configuration import load_configuration, unusable_files

    config, criteria = load_configuration(config_paths, overrides, _warn_of_variables)
    print_notes(criteria)
    tools = load_tool_definitions(config)
    unusable = tuple(unusable_files(config))
    for error in unusable:
        _warn(error)
    names = ", ".join(criterion.name for criterion in criteria)
    registered = f"; {len(tools)} registered tools" if tools else ""
    echo(f"the configuration is valid; {len(criteria)} criteria: {names or 'none'}{registered}")
    return int(strict and bool(unusable))


def _warn_of_variables(error: ToolgaugeError) -> None:
    _warn(error)
    echo("warning: `toolgauge serve` does not start with these variables", err=True)


def _warn(error: ToolgaugeError) -> None:
    echo(f"warning: {error.message}", err=True)
    if error.hint is not None:
        echo(f"hint: {error.hint}", err=True)


def _print_components(*, as_json: bool) -> int:
    groups = {
        "dialects": plugins.DIALECTS,
        "evaluators": plugins.EVALUATORS,
        "receivers": plugins.RECEIVERS,
        "exporters": plugins.EXPORTERS,
    }
    found = {kind: [_described(group, name) for name in plugins.names(group)] for kind, group in groups.items()}
    exit_code = int(any("error" in row for rows in found.values() for row in rows))
    if as_json:
        echo(json.dumps({"version": version("toolgauge"), **found}))
        return exit_code
    for kind, rows in found.items():
        echo(f"{kind}:")
        width = max((len(str(row["name"])) for row in rows), default=0)
        for row in rows:
            known = ", version ".join(str(row[key]) for key in ("level", "version") if key in row)
            text = f"error: {row['error']}" if "error" in row else str(row["description"])
            echo(f"  {row['name']!s:<{width}}  {text}{f' ({known})' if known else ''}".rstrip())
        if not rows:
            echo("  none")
    return exit_code


def _described(group: str, name: str) -> JsonObject:
    extra = plugins.missing_extra(group, name)
    if extra is not None:
        return {"name": name, "description": f"Needs the extra toolgauge[{extra}], which is not installed."}
    try:
        loaded: object = plugins.load(group, name)
    except ToolgaugeError as error:
        return {"name": name, "error": error.message}
    text = inspect.getdoc(loaded) or ""
    found: JsonObject = {"name": name, "description": text.partition("\n\n")[0].replace("\n", " ")}
    for key in ("version", "level") if group == plugins.EVALUATORS else ():
        value: object = getattr(loaded, key, None)
        if isinstance(value, str):
            found[key] = value
    return found
