"""The files that listeners and destinations name: certificates, keys, authorities, tokens.

They belong to one machine, and a configuration may be written on another. So whether they can be used is no part of
whether it is valid: `toolgauge serve` does not start without them, and `toolgauge validate` says what it would say.
"""

from collections.abc import Callable, Iterator
from functools import partial

from toolgauge.config.checks import listener_sections
from toolgauge.config.model import Config
from toolgauge.config.nodes import PathStep, spelled
from toolgauge.model.errors import StartError
from toolgauge.net.tls import client_context, server_context
from toolgauge.service.destination import destination_settings
from toolgauge.service.listeners import guard, server_tls


def unusable_files(config: Config) -> Iterator[StartError]:
    """Yield what keeps the files that the configuration names from being used here, each with the section that does."""
    for path, use in _uses(config):
        try:
            use()
        except StartError as error:
            yield StartError(f"`{spelled(path)}`: {error.message}", hint=error.hint)


def _uses(config: Config) -> Iterator[tuple[tuple[PathStep, ...], Callable[[], object]]]:
    for path, section in listener_sections(config):
        tls = server_tls(section.tls)
        if tls is not None:
            yield (*path, "tls"), partial(server_context, tls)
        if section.auth is not None and section.auth.filename is not None:
            yield (*path, "auth"), partial(guard, section.auth)
    several = len(config.exporters.otlp) > 1
    for number, exporter in enumerate(config.exporters.otlp):
        tls = destination_settings(exporter).tls
        if tls is not None:
            path = ("exporters", "otlp", number, "tls") if several else ("exporters", "otlp", "tls")
            yield path, partial(client_context, tls)
