"""What differs between two configurations, as names of keys: values may be secrets and are not told."""

from collections.abc import Iterator

from toolgauge.config.model import Config
from toolgauge.config.nodes import Node, plain, spelled
from toolgauge.settings import Section

# What is bound, sized or opened once, at the start.
_AT_START = (
    "exporters.prometheus",
    "admin",
    "inbox",
    "assemble.late_memory",
    "memory",
    "metrics.max_services",
    "metrics.max_agents",
    "metrics.max_tools",
    "metrics.max_label_sets",
    "state",
    "watch",
    "web",
)


def changed_keys(old: Config, new: Config) -> tuple[str, ...]:
    """Name the keys whose values differ, in the order of the default file."""
    return tuple(_differences(old, new, ()))


def waits_for_start(key: str) -> bool:
    """Return whether a change of this key takes effect at the next start only."""
    section, _, name = key.partition(".")
    # Receivers and exporters of other packages are opened once.
    if section in ("receivers", "exporters") and name.partition(".")[0] not in ("", "otlp"):
        return True
    return any(key == known or key.startswith(f"{known}.") for known in _AT_START)


def _differences(old: Section, new: Section, path: tuple[str, ...]) -> Iterator[str]:
    # One of them may have a plug-in's section that the other has not.
    fields = {**type(old).model_fields, **type(new).model_fields}
    for name, field in fields.items():
        before: object = getattr(old, name, None)
        after: object = getattr(new, name, None)
        here = (*path, field.alias or name)
        if isinstance(before, Section) and isinstance(after, Section):
            yield from _differences(before, after, here)
        elif _bare(before) != _bare(after):
            yield spelled(here)


def _bare(value: object) -> object:
    """Strip the lines on which criteria are written."""
    if isinstance(value, tuple):
        items: tuple[object, ...] = value  # pyright: ignore[reportUnknownVariableType] (narrowed from object)
        return tuple(plain(item) if isinstance(item, Node) else item for item in items)
    return value
