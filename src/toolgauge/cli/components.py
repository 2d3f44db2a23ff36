"""`toolgauge components`: which plug-ins are installed, ours and others'."""

import inspect
import json
from collections.abc import Callable, Iterator
from importlib.metadata import version

import click

from toolgauge import plugins
from toolgauge.cli.main import EXIT_CODES
from toolgauge.model.errors import ToolgaugeError
from toolgauge.model.json import Json, JsonObject


@click.command("components", epilog=EXIT_CODES)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(*, as_json: bool) -> int:
    """List the dialects, evaluators, receivers and exporters that are installed.

    Other packages add to them through entry points. One that cannot be loaded is listed with its error, and the exit
    code is then 1.
    """
    found: dict[str, list[JsonObject]] = {
        "dialects": list(_described(plugins.DIALECTS, _nothing_more)),
        "evaluators": list(_described(plugins.EVALUATORS, _score_version)),
        "receivers": list(_described(plugins.RECEIVERS, _nothing_more)),
        "exporters": list(_described(plugins.EXPORTERS, _nothing_more)),
    }
    if as_json:
        click.echo(json.dumps({"version": version("toolgauge"), **found}))
    else:
        for kind, components in found.items():
            _print_table(kind, components)
    return 1 if any("error" in component for kind in found.values() for component in kind) else 0


def _described(group: str, more: Callable[[object], JsonObject]) -> Iterator[JsonObject]:
    for name in plugins.names(group):
        extra = plugins.missing_extra(group, name)
        if extra is not None:
            yield {"name": name, "description": f"Needs the extra toolgauge[{extra}], which is not installed."}
            continue
        try:
            loaded: object = plugins.load(group, name)
        except ToolgaugeError as error:
            yield {"name": name, "error": error.message}
            continue
        text = inspect.getdoc(loaded) or ""
        yield {"name": name, "description": text.partition("\n\n")[0].replace("\n", " "), **more(loaded)}


def _nothing_more(_loaded: object) -> JsonObject:
    return {}


def _score_version(loaded: object) -> JsonObject:
    more: JsonObject = {}
    for key in ("version", "level"):
        value: object = getattr(loaded, key, None)
        if isinstance(value, str):
            more[key] = value
    return more


def _print_table(kind: str, components: list[JsonObject]) -> None:
    click.echo(f"{kind}:")
    width = max((len(str(component["name"])) for component in components), default=0)
    for component in components:
        click.echo(f"  {component['name']!s:<{width}}  {_line(component)}".rstrip())
    if not components:
        click.echo("  none")


def _line(component: JsonObject) -> str:
    if "error" in component:
        return f"error: {component['error']}"
    known: list[Json] = [component[key] for key in ("level", "version") if key in component]
    note = f" ({', version '.join(str(value) for value in known)})" if known else ""
    return f"{component['description']}{note}"
