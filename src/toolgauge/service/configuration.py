"""Configuration and criteria as a service starts with them, and the files that it cannot use.

Apart from `criteria_factory`: a command that scores files needs no TLS and no judge.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from toolgauge.config.criteria import read_criteria
from toolgauge.config.load import listener_sections, load
from toolgauge.config.model import Config
from toolgauge.config.problems import PathStep, Problem, config_error, spelled
from toolgauge.model.errors import ConfigError, StartError
from toolgauge.net.auth import TokenGuard
from toolgauge.net.tls import client_context, server_context
from toolgauge.score.criterion import Criterion
from toolgauge.service.criteria_factory import EvaluatorFiles, criteria_of
from toolgauge.service.judge_pool import asks_judge, judge_problems, open_client


def load_configuration(
    paths: Sequence[str], overrides: Sequence[str], warn: Callable[[ConfigError], None] | None = None
) -> tuple[Config, tuple[Criterion, ...]]:
    """Load configuration and criteria as at the start, `warn` as in `load`; raise `ConfigError` with every problem found."""
    config = load([Path(path) for path in paths], overrides, os.environ, warn=warn)
    # One list for all that is wrong: a criterion with a wrong key or name hides no problem of the others.
    problems: list[Problem] = []
    written = read_criteria(config, os.environ, problems)
    criteria = criteria_of(config, written, EvaluatorFiles(), problems)
    problems += judge_problems(config, written, criteria)
    if problems:
        raise config_error(problems)
    if config.judge is not None and asks_judge(criteria):
        open_client(config.judge)  # Raises where its model does not exist
    return config, criteria


def unusable_files(config: Config) -> Iterator[StartError]:
    """Yield the errors of TLS and token files that the configuration names, each with its section."""
    uses: list[tuple[tuple[PathStep, ...], Callable[[], object]]] = []
    for section_path, section in listener_sections(config):
        if section.tls is not None:
            uses.append(((*section_path, "tls"), partial(server_context, section.tls)))
        if section.auth is not None and section.auth.filename is not None:
            uses.append(((*section_path, "auth"), partial(TokenGuard, section.auth)))
    brokers = () if config.exporters.kafka is None else (config.exporters.kafka,)
    otlp, webhook = config.exporters.otlp, config.exporters.webhook
    for kind, exporters in (("otlp", otlp), ("webhook", webhook), ("kafka", brokers)):
        for number, exporter in enumerate(exporters):
            if exporter.client_tls is not None:
                entry: tuple[PathStep, ...] = (kind, number) if len(exporters) > 1 else (kind,)
                uses.append((("exporters", *entry, "tls"), partial(client_context, exporter.client_tls)))
    for path, use in uses:
        try:
            use()
        except StartError as error:
            yield StartError(f"`{spelled(path)}`: {error.message}", hint=error.hint)
