"""Writes changes of the tools that agents are offered: as sentences, and as log records.

A client whose tools change with each run would fill the log and the destinations: events are limited to 60 a minute.
"""

# pyright: reportUnknownMemberType=false

import logging
from collections.abc import Iterator, Sequence
from dataclasses import astuple

from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord

from toolgauge.export.regression_events import event_attribute, own_record, quoted
from toolgauge.export.results import AGENT, SERVICE, TOOL
from toolgauge.export.score_metrics import TOOL_CHANGE_KIND
from toolgauge.model.delivery import Outgoing
from toolgauge.model.metrics import fit_label
from toolgauge.model.records import ENVIRONMENT
from toolgauge.model.regressions import ToolDefinitionChange
from toolgauge.otlp.encode import RequestWriter, field, tag
from toolgauge.selfmetrics import WatchMetrics
from toolgauge.settings import MINUTE

_LOG = logging.getLogger("toolgauge")
EVENT_NAME = "toolgauge.tool_definition"
MAX_EVENTS_A_MINUTE = 60
_PREFIX = f"{EVENT_NAME}."
# Field of a scope's log records.
_ITEM = tag(2)


class ToolChangeEvents:
    """Logs and encodes changes, as many in a minute as the limit allows; the others are counted."""

    def __init__(self, metrics: WatchMetrics) -> None:
        self._metrics = metrics
        self._minute = self._in_minute = 0

    def encode(self, requests: RequestWriter, changes: Sequence[ToolDefinitionChange]) -> Iterator[Outgoing]:
        """Yield one request of log records, none without changes."""
        records: list[bytes] = []
        for change in changes:
            if change.time_ns // MINUTE != self._minute:
                self._minute, self._in_minute = change.time_ns // MINUTE, 0
            self._in_minute += 1
            if self._in_minute > MAX_EVENTS_A_MINUTE:
                self._metrics.tool_events_limited.add()
                continue
            _LOG.log(logging.WARNING if change.kind == "breaking" else logging.INFO, "%s", tool_change_sentence(change))
            records.append(field(_ITEM, _record(change).SerializeToString()))
        if records:
            yield Outgoing(signal="logs", body=requests.request(records), spans=0, own=True)


def tool_change_sentence(change: ToolDefinitionChange) -> str:
    """Write a change so that a person understands it without anything else."""
    agent = change.agent or change.service
    whose = f" of {'agent' if change.agent else 'service'} {quoted(agent)}" if agent else ""
    version = f" in version {quoted(change.version)}" if change.version else ""
    place = "" if change.path is None else f": {quoted(change.path)}"
    words = {
        "added": "was added",
        "removed": "was removed",
        "breaking": "no longer accepts all calls that were valid before",
        "changed": "has another schema",
        "additive": "accepts more calls",
        "wording": "is described in other words",
    }
    return f"tool {quoted(change.tool)}{whose}{version} {words[change.kind]}{place}"


def _record(change: ToolDefinitionChange) -> LogRecord:
    values = (
        (SERVICE, change.service),
        (ENVIRONMENT, change.environment),
        (AGENT, change.agent),
        (TOOL, change.tool),
        (TOOL_CHANGE_KIND, change.kind),
        (f"{_PREFIX}version", change.version),
        (f"{_PREFIX}old_hash", change.old_hash),
        (f"{_PREFIX}new_hash", change.new_hash),
        (f"{_PREFIX}path", change.path),
    )
    is_breaking = change.kind == "breaking"
    record = own_record(EVENT_NAME, change.time_ns, tool_change_sentence(change), astuple(change), warns=is_breaking)
    record.attributes.extend([event_attribute(key, fit_label(value)) for key, value in values if value])
    return record
