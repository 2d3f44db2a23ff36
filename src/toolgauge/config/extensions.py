"""Sections of receivers and exporters that other packages bring: `exporters: {<name>: {...}}`.

Whoever writes such a key gets a configuration that has a field for it, with the plug-in's own settings model; without
the plug-in the key is unknown, as any other.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from pydantic import BaseModel, create_model

from toolgauge import plugins
from toolgauge.config.model import Config, Exporters, Receivers
from toolgauge.config.nodes import Node
from toolgauge.settings import Section


def config_model(root: Node) -> type[Config]:
    """Make the model of a configuration that has these keys; raise `ConfigError` when a plug-in cannot be loaded."""
    return _model(
        _written(root.child("receivers"), plugins.RECEIVERS), _written(root.child("exporters"), plugins.EXPORTERS)
    )


def extensions(section: Receivers | Exporters) -> Iterator[tuple[str, BaseModel]]:
    """Yield the names and settings of plug-ins that are in use."""
    built_in = Receivers.model_fields if isinstance(section, Receivers) else Exporters.model_fields
    for name in type(section).model_fields:
        settings: object = getattr(section, name)
        if name not in built_in and isinstance(settings, BaseModel):
            yield name, settings


def _written(section: Node | None, group: str) -> tuple[str, ...]:
    if section is None or not isinstance(section.value, dict):
        return ()
    return tuple(name for name in plugins.additional(group) if name in section.value)


# Two configurations with the same plug-ins have one model, or every value of theirs would seem to differ.
@lru_cache(maxsize=16)
def _model(receivers: tuple[str, ...], exporters: tuple[str, ...]) -> type[Config]:
    if not receivers and not exporters:
        return Config
    of_receivers = _extended(Receivers, {name: plugins.receiver(name) for name in receivers})
    of_exporters = _extended(Exporters, {name: plugins.exporter(name) for name in exporters})
    return create_model(
        "Config",
        __base__=Config,
        receivers=(of_receivers, of_receivers()),
        exporters=(of_exporters, of_exporters()),
    )


def _extended(section: type[Section], loaded: dict[str, type[Any]]) -> type[Section]:
    fields: dict[str, Any] = {name: (plug_in.Settings | None, None) for name, plug_in in loaded.items()}
    return create_model(section.__name__, __base__=section, __doc__=section.__doc__, **fields)
