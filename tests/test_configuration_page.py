"""Every key of the configuration is explained on its page, with the default that the code has."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

from pydantic import BaseModel, TypeAdapter
from pydantic.fields import FieldInfo

from toolgauge.backends.settings import VENDORS, BackendSettings
from toolgauge.config.model import Config
from toolgauge.export.settings import QueueSettings, RetrySettings
from toolgauge.net.settings import ClientTls, ListenerSettings

DOCS = Path(__file__).parent.parent / "docs"
# Sections that are explained on a page of their own, which is named here or has tests of its own.
ELSEWHERE = {"judge": "judges.md", "dialects": "dialects.md"}
# Headings of keys that several sections have.
SHARED = ("Listeners", "Backends of scores")
LISTENER = ("tls", "auth", "insecure")


def explained(page: str) -> dict[str, dict[str, str]]:
    """The default of each key that a table of a page has, by the heading above it."""
    found: dict[str, dict[str, str]] = {}
    for part in (DOCS / page).read_text().split("\n## ")[1:]:
        heading, _, text = part.partition("\n")
        for keys, default, meaning in re.findall(r"^\| (`[^|]+) \| ([^|]*?) ?\| ([^|]+) \|$", text, re.MULTILINE):
            assert len(meaning) > 5, keys
            for key in re.findall(r"`([^`]+)`", keys):
                found.setdefault(heading.strip("`"), {})[key] = default.strip("`")
    return found


def sections_of(annotation: object) -> Iterator[type[BaseModel]]:
    """The models in an annotation."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from sections_of(part)


def as_written(field: FieldInfo) -> str:
    """The default of a field, as a table has it."""
    if field.is_required():
        return "required"
    default: object = field.get_default(call_default_factory=True)  # pyright: ignore[reportUnknownMemberType] (no types)
    value: object = TypeAdapter(field.rebuild_annotation()).dump_python(default, mode="json")
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case list():
            return f"[{', '.join(map(str, value))}]"  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        case _:
            return str(value)


def leaves(model: type[BaseModel], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """Every key that holds no others, with its default; keys that sections share are left out where they recur."""
    for name, field in model.model_fields.items():
        here = (*path, field.alias or name)
        inner = next(sections_of(field.annotation), None)
        if here[0] in ELSEWHERE and len(here) == 1:
            continue
        if path and issubclass(model, ListenerSettings) and name in LISTENER:
            continue
        if (
            path[:1] == ("exporters",)
            and path[-1] in VENDORS
            and name in BackendSettings.model_fields.keys() - {"endpoint"}
        ):
            continue
        if path[:2] == ("exporters", "webhook") and inner in (ClientTls, RetrySettings):
            continue
        if path[:2] == ("exporters", "kafka") and inner in (RetrySettings, QueueSettings):
            continue
        if inner is None:
            yield here, as_written(field)
        else:
            yield from leaves(inner, here)


def place(path: tuple[str, ...], headings: dict[str, dict[str, str]]) -> tuple[str, str]:
    """The heading under which a key stands, and how it is written there."""
    for length in range(len(path) - 1, 0, -1):
        if ".".join(path[:length]) in headings:
            return ".".join(path[:length]), ".".join(path[length:])
    whole = ".".join(path)
    return next((heading for heading, keys in headings.items() if heading not in SHARED and whole in keys), ""), whole


PAGE = explained("configuration.md")


def test_every_key_is_explained_with_its_default():
    defaults = dict(leaves(Config))
    places = {path: place(path, PAGE) for path in defaults}
    explained = {path: PAGE.get(heading, {}).get(key) for path, (heading, key) in places.items()}
    assert explained == defaults, "`docs/configuration.md` has no row for a key, or another default"


def test_every_key_of_a_listener_is_explained_with_its_default():
    fields = {name: field for name, field in ListenerSettings.model_fields.items() if name in LISTENER}
    wanted = {"insecure": as_written(fields["insecure"])}
    for name in ("tls", "auth"):
        (section,) = sections_of(fields[name].annotation)
        wanted |= {".".join((name, *path)): default for path, default in leaves(section)}
    assert PAGE["Listeners"] == wanted


def test_every_key_that_backends_share_is_explained_with_its_default():
    of_otlp = {"tls": "", "retry": ""}
    wanted = {".".join(path): default for path, default in leaves(BackendSettings) if path[0] not in of_otlp}
    del wanted["endpoint"]
    assert PAGE["Backends of scores"] == wanted | of_otlp


def test_every_key_of_the_judge_is_explained_with_its_default():
    (section,) = sections_of(Config.model_fields["judge"].annotation)
    text = (DOCS / "judges.md").read_text()
    table = dict(re.findall(r"^\| `([a-z_.]+)` \| ([^|]*?) ?\| [^|]{6,} \|$", text, re.MULTILINE))
    assert {key: default.strip("`") for key, default in table.items()} == {
        ".".join(path): default for path, default in leaves(section)
    }


def test_no_key_is_explained_that_is_not_there():
    known = {".".join(place(path, PAGE)) for path, _ in leaves(Config)}
    shared = {"tls", "auth", "insecure", "retry", "queue"}
    unknown = [
        f"{heading}: {key}"
        for heading, keys in PAGE.items()
        for key in keys
        if heading not in SHARED and f"{heading}.{key}" not in known and key not in shared
    ]
    assert unknown == []
