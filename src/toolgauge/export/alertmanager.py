"""Regressions as alerts of Alertmanager's API v2: what lasts is sent again and again, as Prometheus does it.

An alert that was not sent again before its end time is resolved by Alertmanager, so a toolgauge that is gone for good
leaves no alert behind, and a restart resolves none.
"""

from collections.abc import Sequence
from urllib.parse import urlsplit, urlunsplit

from msgspec import Struct

from toolgauge.export.regression_events import iso_time, sentence, stream_labels, trace_links, valid_traces
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.metrics import fit_label
from toolgauge.model.regressions import Regression, Stream
from toolgauge.settings import MINUTE, SECOND

ALERT_NAME = "ToolgaugeQualityRegression"
RESEND_S = 60.0
# Prometheus' rule: four times the interval, so that three lost requests resolve nothing.
_LASTS_NS = 4 * MINUTE
_PATH = "/api/v2/alerts"
_MAX_ALERTS = 5000
# As many as Prometheus puts into a request.
_MAX_IN_REQUEST = 64


class Alert(Struct, frozen=True, kw_only=True):
    """An alert that is on; `ended` is how it was resolved, `None` while it lasts."""

    began: Regression
    ended: Regression | None = None


class Alerts:
    """The alerts that are on, and those whose end has not been delivered. Times are seconds of the loop's clock."""

    def __init__(self, trace_url: str | None) -> None:
        self._trace_url = trace_url
        self._alerts: dict[Stream, Alert] = {}
        self._due_s: float | None = None

    def add(self, regressions: Sequence[Regression], now_s: float) -> int:
        """Take what began or ended, to be sent at once; return how many there was no room for."""
        dropped = 0
        for regression in regressions:
            known = self._alerts.get(regression.stream)
            if known is None and len(self._alerts) >= _MAX_ALERTS:
                dropped += 1
            elif regression.phase == "began":
                self._alerts[regression.stream] = Alert(began=regression)
            else:
                began = regression if known is None else known.began
                self._alerts[regression.stream] = Alert(began=began, ended=regression)
        if self._alerts:
            self._due_s = now_s
        return dropped

    def set_active(self, regressions: Sequence[Regression], now_s: float) -> int:
        """Take what has lasted since before this process began."""
        return self.add([each for each in regressions if each.phase == "began"], now_s)

    def due_s(self) -> float | None:
        """Return when to send next, `None` without alerts."""
        return self._due_s

    def take(self, now_s: float) -> list[tuple[Alert, ...]]:
        """Return what to send now, by request."""
        alerts = tuple(self._alerts.values())
        self._due_s = now_s + RESEND_S if alerts else None
        return [alerts[start : start + _MAX_IN_REQUEST] for start in range(0, len(alerts), _MAX_IN_REQUEST)]

    def abandoned(self) -> int:
        """Return how many requests are lost at the end: none, because Alertmanager resolves what it does not hear of."""
        return 0

    def settle(self, sent: Sequence[Alert]) -> None:
        """Forget the alerts whose end was delivered or given up."""
        for alert in sent:
            if alert.ended is not None and self._alerts.get(alert.began.stream) is alert:
                del self._alerts[alert.began.stream]
        if not self._alerts:
            self._due_s = None

    def written(self, items: Sequence[Alert], now_ns: int) -> Json:
        """Write the body of a request; `now_ns` is wall-clock time."""
        return [_alert(alert, self._trace_url, now_ns) for alert in items]


def alerts_url(url: str) -> str:
    """Add the API's path to a base URL."""
    parts = urlsplit(url)
    path = parts.path.rstrip("/")
    return urlunsplit(parts._replace(path=path if path.endswith(_PATH) else path + _PATH))


def _alert(alert: Alert, trace_url: str | None, now_ns: int) -> JsonObject:
    newest = alert.began if alert.ended is None else alert.ended
    ends_ns = now_ns + _LASTS_NS if alert.ended is None else min(alert.ended.at_ns, now_ns)
    labels: JsonObject = {"alertname": ALERT_NAME, "severity": "warning"}
    for label, value in stream_labels(newest.stream):
        labels[label.replace(".", "_")] = value
    # The time of the alarm, not of the onset: alerts that started long ago are not waited for by `group_wait`, and
    # those of one incident would come one by one. Never behind the end, which Alertmanager refuses.
    written: JsonObject = {
        "labels": labels,
        "annotations": _annotations(newest, trace_url),
        "startsAt": iso_time(min(alert.began.at_ns, ends_ns)),
        "endsAt": iso_time(ends_ns),
    }
    links = trace_links(newest.after, trace_url)
    if links:
        written["generatorURL"] = links[0]
    return written


def _annotations(regression: Regression, trace_url: str | None) -> JsonObject:
    annotations: JsonObject = {
        "summary": sentence(regression),
        "description": _description(regression),
        "incident": fit_label(regression.incident),
        "onset": iso_time(regression.onset_ns),
    }
    for name, traces in (("traces_before", regression.before), ("traces_after", regression.after)):
        shown = trace_links(traces, trace_url) or valid_traces(traces)
        if shown:
            annotations[name] = " ".join(shown)
    return annotations


def _description(regression: Regression) -> str:
    low, high = regression.interval
    text = (
        f"Mean score {regression.current:.4g} (95 % interval {low:.4g} to {high:.4g}) of {regression.observations} "
        f"conversations since {iso_time(regression.onset_ns // SECOND * SECOND)}; baseline {regression.baseline:.4g}."
    )
    if regression.new_version is None:
        return text
    old = "" if regression.old_version is None else f", {fit_label(regression.old_version)} before"
    return f"{text} Version {fit_label(regression.new_version)}{old}."
