"""Announces regressions to webhooks: an Alertmanager, or whatever takes plain JSON.

Requests are few, so each has a connection of its own, with the certificates as they are then. A request that fails is
repeated for a while; what is given up is counted, and logged without URL, headers or body, which may hold secrets.
"""

import asyncio
import json
import logging
import random
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeAlias, TypeVar
from urllib.parse import urlsplit, urlunsplit

import aiohttp
from msgspec import Struct

from toolgauge.export.destination import Backoff, checked_headers
from toolgauge.export.regression_events import (
    iso_time,
    regression_json,
    sentence,
    stream_labels,
    trace_links,
    valid_traces,
)
from toolgauge.export.sender import DELIVERED, FAILURES, Permanent, Transient, Verdict, asked_wait_s, failed, proxy_of
from toolgauge.export.settings import WebhookSettings
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.metrics import fit_label
from toolgauge.model.regressions import Regression, Stream
from toolgauge.net.tls import client_context
from toolgauge.selfmetrics import WebhookMetrics
from toolgauge.settings import MINUTE, SECOND

ALERT_NAME = "ToolgaugeQualityRegression"
RESEND_S = 60.0
# Prometheus' rule: four times the interval, so that three lost requests resolve nothing.
_LASTS_NS = 4 * MINUTE
_PATH = "/api/v2/alerts"
_MAX_ALERTS = 5000
# As many as Prometheus puts into a request.
_MAX_ALERTS_IN_REQUEST = 64


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
        return [
            alerts[start : start + _MAX_ALERTS_IN_REQUEST] for start in range(0, len(alerts), _MAX_ALERTS_IN_REQUEST)
        ]

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


_LOG = logging.getLogger("toolgauge.webhooks")
# So long is waited for what begins together: one incident is one message.
GROUP_S = 5.0
MAX_WAITING = 1000
_MAX_IN_REQUEST = 100
_MAX_ANSWER_BYTES = 64 * 1024
_OUTCOMES = ("sent", "retried", "dropped")
# Between attempts while there is little time left.
_HURRIED_WAIT_S = 0.25
_TOO_MANY_REQUESTS = 429

_Item = TypeVar("_Item")


class _Messages(Protocol[_Item]):
    """Makes requests of regressions. Times in seconds are those of the loop's clock."""

    def add(self, regressions: Sequence[Regression], now_s: float) -> int: ...

    def set_active(self, regressions: Sequence[Regression], now_s: float) -> int: ...

    def due_s(self) -> float | None: ...

    def take(self, now_s: float) -> Sequence[Sequence[_Item]]: ...

    def settle(self, sent: Sequence[_Item]) -> None: ...

    def abandoned(self) -> int: ...

    def written(self, items: Sequence[_Item], now_ns: int) -> Json: ...


class _Events:
    """Each regression once, together with those that come within a few seconds."""

    def __init__(self, trace_url: str | None) -> None:
        self._trace_url = trace_url
        self._waiting: deque[Regression] = deque()
        self._due_s: float | None = None

    def add(self, regressions: Sequence[Regression], now_s: float) -> int:
        taken = regressions[: MAX_WAITING - len(self._waiting)]
        self._waiting.extend(taken)
        if self._waiting and self._due_s is None:
            self._due_s = now_s + GROUP_S
        return len(regressions) - len(taken)

    def set_active(self, regressions: Sequence[Regression], now_s: float) -> int:
        """Take nothing: they were announced when they began."""
        del regressions, now_s
        return 0

    def due_s(self) -> float | None:
        return self._due_s

    def take(self, now_s: float) -> list[tuple[Regression, ...]]:
        del now_s
        waiting, self._due_s = tuple(self._waiting), None
        self._waiting.clear()
        return [waiting[start : start + _MAX_IN_REQUEST] for start in range(0, len(waiting), _MAX_IN_REQUEST)]

    def abandoned(self) -> int:
        return len(self.take(0))

    def settle(self, sent: Sequence[Regression]) -> None:
        """Do nothing: what was taken is not kept."""

    def written(self, items: Sequence[Regression], now_ns: int) -> Json:
        del now_ns
        return {"version": 1, "regressions": [regression_json(each, self._trace_url) for each in items]}


class _Webhook(Generic[_Item]):
    """One destination: a task that sends all that is due, one request at a time. Belongs to the event loop."""

    def __init__(
        self,
        settings: WebhookSettings,
        messages: _Messages[_Item],
        *,
        metrics: WebhookMetrics,
        url: str,
        clock: Callable[[], int],
        user_agent: str,
    ) -> None:
        self._settings = settings
        self._name = settings.name or "webhook"
        self._url = url
        self._messages = messages
        self._metrics = metrics
        self._clock = clock
        self._headers = {
            **dict(checked_headers(settings.headers, self._name)),
            "Content-Type": "application/json",
            "User-Agent": user_agent,
        }
        self._proxy: str | None = None
        self._changed = asyncio.Event()
        self._closing = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start; raise `StartError` when a TLS file or the proxy cannot be used."""
        self._proxy = proxy_of(self._url)
        if self._settings.client_tls is not None:
            client_context(self._settings.client_tls)
        for outcome in _OUTCOMES:
            self._metrics.notifications.add(0, (self._name, outcome))
        self._task = asyncio.create_task(self._work())

    def put(self, regressions: Sequence[Regression]) -> None:
        """Announce what began or ended."""
        self._count_dropped(self._messages.add(regressions, _now_s()), "too many wait")
        self._changed.set()

    def set_active(self, regressions: Sequence[Regression]) -> None:
        """Go on announcing what lasts."""
        self._count_dropped(self._messages.set_active(regressions, _now_s()), "too many wait")
        self._changed.set()

    async def close(self, timeout_s: float) -> None:
        """Send all that waits, in a hurry; the rest is dropped then."""
        task, self._task = self._task, None
        if task is None:
            return
        self._closing.set()
        self._changed.set()
        await asyncio.wait([task], timeout=timeout_s)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        self._count_dropped(self._messages.abandoned(), "shutdown")

    async def _work(self) -> None:
        is_last = False
        while not is_last and await self._is_due():
            is_last = self._closing.is_set()
            requests = deque(self._messages.take(_now_s()))
            try:
                while requests:
                    verdict = await self._delivered(requests[0])
                    self._settle(requests.popleft(), verdict)
            finally:
                self._count_dropped(len(requests), "shutdown")

    def _settle(self, items: Sequence[_Item], verdict: Verdict) -> None:
        if isinstance(verdict, Permanent):
            self._count_dropped(1, verdict.reason)
        else:
            self._metrics.notifications.add(1, (self._name, "sent"))
        self._messages.settle(items)

    async def _is_due(self) -> bool:
        """Wait for something to send; False when there is nothing more to come."""
        while True:
            self._changed.clear()
            due_s = self._messages.due_s()
            if self._closing.is_set():
                return due_s is not None
            wait_s = None if due_s is None else due_s - _now_s()
            if wait_s is not None and wait_s <= 0:
                return True
            await _waited(self._changed, wait_s)

    async def _delivered(self, items: Sequence[_Item]) -> Verdict:
        """Send until it works, is refused for good, or the time for it is over."""
        began_s, backoff = _now_s(), Backoff(self._settings.retry, random.random)
        while isinstance(verdict := await self._attempt(items), Transient):
            wait_s = backoff.next_wait_s(elapsed_s=_now_s() - began_s, retry_after_s=verdict.retry_after_s)
            if wait_s is None:
                return Permanent(verdict.reason)
            if self._closing.is_set():
                # There is no later: try again until `close` has no time left.
                await asyncio.sleep(_HURRIED_WAIT_S)
            else:
                await _waited(self._closing, wait_s)
            self._metrics.notifications.add(1, (self._name, "retried"))
        return verdict

    async def _attempt(self, items: Sequence[_Item]) -> Verdict:
        body = json.dumps(self._messages.written(items, self._clock())).encode()
        try:
            return await self._posted(body)
        except FAILURES as error:
            return failed(error)
        except Exception as error:  # noqa: BLE001 - a sender task must outlive whatever one request does to it
            # Not the message, which may quote the URL.
            return Permanent(f"internal_{type(error).__name__}")

    async def _posted(self, body: bytes) -> Verdict:
        tls = self._settings.client_tls
        async with (
            aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=True if tls is None else client_context(tls)),
                timeout=aiohttp.ClientTimeout(total=self._settings.timeout / SECOND),
                cookie_jar=aiohttp.DummyCookieJar(),
            ) as session,
            session.post(
                self._url,
                data=body,
                headers=self._headers,
                allow_redirects=False,
                proxy=self._proxy,
                server_hostname=None if tls is None else tls.server_name_override,
            ) as response,
        ):
            # Of the answer only the status counts, and what did not come whole may not have been taken.
            await response.content.read(_MAX_ANSWER_BYTES)
            return _verdict(response)

    def _count_dropped(self, notifications: int, reason: str) -> None:
        if notifications:
            self._metrics.notifications.add(notifications, (self._name, "dropped"))
            _LOG.warning("webhook %s: %d notifications dropped: %s", self._name, notifications, reason)


_AnyWebhook: TypeAlias = _Webhook[Alert] | _Webhook[Regression]


def _webhook(
    settings: WebhookSettings,
    trace_url: str | None,
    metrics: WebhookMetrics,
    clock: Callable[[], int],
    user_agent: str,
) -> _AnyWebhook:
    url = settings.url
    if settings.format == "alertmanager":
        alerts, url = Alerts(trace_url), alerts_url(url)
        return _Webhook[Alert](settings, alerts, url=url, metrics=metrics, clock=clock, user_agent=user_agent)
    events = _Events(trace_url)
    return _Webhook[Regression](settings, events, url=url, metrics=metrics, clock=clock, user_agent=user_agent)


class Webhooks:
    """All webhooks. `put` and `set_active` may be called in any thread; `start` and `close` belong to the event loop.

    `clock` yields wall-clock nanoseconds.
    """

    def __init__(
        self,
        settings: Sequence[WebhookSettings],
        trace_url: str | None,
        metrics: WebhookMetrics,
        *,
        clock: Callable[[], int],
        user_agent: str,
    ) -> None:
        """Raise `ConfigError` when a header cannot be sent."""
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._webhooks: list[_AnyWebhook] = []
        for number, one in enumerate(settings, 1):
            named = one if one.name is not None else one.model_copy(update={"name": _default_name(number)})
            self._webhooks.append(_webhook(named, trace_url, metrics, clock, user_agent))

    async def start(self) -> None:
        """Start a task for each; nothing connects before the first regression. Raise `StartError` as their TLS does."""
        try:
            for webhook in self._webhooks:
                webhook.start()
        except BaseException:
            await self._close_all(0)
            raise
        with self._lock:
            self._loop = asyncio.get_running_loop()

    def put(self, regressions: Sequence[Regression]) -> None:
        """Announce regressions that began or ended; before `start` and after `close` they are ignored."""
        self._call(lambda webhook: webhook.put(regressions))

    def set_active(self, regressions: Sequence[Regression]) -> None:
        """Go on announcing what lasts, after a restart: to Alertmanagers, which would resolve it otherwise."""
        self._call(lambda webhook: webhook.set_active(regressions))

    async def close(self, timeout_s: float) -> None:
        """Send what waits within the time, and drop the rest. What lasts is not resolved. Works twice, and without a start."""
        with self._lock:
            # What was put before comes first.
            self._loop = None
        await asyncio.sleep(0)
        await self._close_all(timeout_s)

    def _call(self, do: Callable[[_AnyWebhook], None]) -> None:
        with self._lock:
            if self._loop is not None:
                for webhook in self._webhooks:
                    self._loop.call_soon_threadsafe(do, webhook)

    async def _close_all(self, timeout_s: float) -> None:
        await asyncio.gather(*(webhook.close(timeout_s) for webhook in self._webhooks))


def _default_name(number: int) -> str:
    return "webhook" if number == 1 else f"webhook/{number}"


def _verdict(response: aiohttp.ClientResponse) -> Verdict:
    status = response.status
    if 200 <= status < 300:
        return DELIVERED
    if status == _TOO_MANY_REQUESTS or status >= 500:
        return Transient(f"http_{status}", asked_wait_s(response))
    return Permanent(f"http_{status}")


async def _waited(event: asyncio.Event, wait_s: float | None) -> None:
    try:
        async with asyncio.timeout(wait_s):
            await event.wait()
    except TimeoutError:
        return


def _now_s() -> float:
    return asyncio.get_running_loop().time()
