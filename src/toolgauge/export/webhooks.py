"""Announces regressions and failed runs to webhooks: an Alertmanager (API v2), or any service that takes plain JSON.

A lasting alert is sent again every minute, as Prometheus does: Alertmanager resolves one that is not. A request that is
given up is counted, and logged without URL, headers or body, which may hold secrets.
"""

import asyncio
import json
import logging
import random
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeAlias
from urllib.parse import urlsplit, urlunsplit

import aiohttp
from msgspec import Struct
from msgspec.structs import replace

from toolgauge.export.destination import Backoff, wait
from toolgauge.export.failed_runs import is_wanted, notice_alert, notice_json
from toolgauge.export.regression_events import (
    cause_sentences,
    iso_time,
    regression_json,
    sentence,
    stream_labels,
    trace_links,
    valid_traces,
)
from toolgauge.export.sender import DELIVERED, FAILURES, Permanent, Transient, Verdict, asked_wait_s, failed, proxy_of
from toolgauge.export.settings import WebhookSettings, checked_headers
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.metrics import fit_label
from toolgauge.model.notices import Notice
from toolgauge.model.regressions import Regression, Stream
from toolgauge.net.throttle import Throttle
from toolgauge.net.tls import client_context
from toolgauge.selfmetrics import WebhookMetrics
from toolgauge.settings import MINUTE, SECOND

_LOG = logging.getLogger("toolgauge.webhooks")
ALERT_NAME = "ToolgaugeQualityRegression"
RESEND_S = 60.0
# Prometheus' rule: four times the interval, so that three lost requests resolve nothing.
_LASTS_NS = 4 * MINUTE
_ALERTS_PATH = "/api/v2/alerts"
_MAX_ALERTS = 5000
# As many as Prometheus puts into a request.
_MAX_ALERTS_IN_REQUEST = 64
# Regressions that begin within this time are sent together: one incident is one message.
GROUP_S = 5.0
MAX_WAITING = 1000
_MAX_IN_REQUEST = 100
_MAX_ANSWER_BYTES = 64 * 1024
# Between attempts while there is little time left.
_HURRIED_WAIT_S = 0.25
_TOO_MANY_REQUESTS = 429


class Alert(Struct, frozen=True, kw_only=True):
    """A regression as it was announced last; `ended` is how it was resolved, `None` while it lasts."""

    began: Regression
    ended: Regression | None = None


Item: TypeAlias = Alert | Notice


class Events:
    """Plain JSON: each regression and each failed run once. `due_s` is when to send next; times are seconds of the loop's clock."""

    def __init__(self, trace_url: str | None) -> None:
        self._trace_url = trace_url
        self._waiting: list[Item] = []
        self.due_s: float | None = None

    def add(self, regressions: Sequence[Regression], now_s: float) -> int:
        """Take regressions that began, changed or ended; return how many there was no room for."""
        taken = regressions[: MAX_WAITING - len(self._waiting)]
        self._waiting.extend(Alert(began=each) for each in taken)
        if self._waiting and self.due_s is None:
            self.due_s = now_s + GROUP_S
        return len(regressions) - len(taken)

    def notify(self, notices: Sequence[Notice], now_s: float) -> int:
        """Take failed runs, to be sent at once; return how many there was no room for."""
        taken = notices[: MAX_WAITING - len(self._waiting)]
        self._waiting.extend(taken)
        self.due_s = now_s
        return len(notices) - len(taken)

    def set_active(self, regressions: Sequence[Regression], now_s: float) -> int:  # noqa: ARG002 - as Alerts
        """Take regressions that have lasted since before this process began: they were announced then."""
        return 0

    def take(self, now_s: float) -> list[Sequence[Item]]:  # noqa: ARG002 - as Alerts
        """Return what to send now, by request."""
        waiting, self._waiting, self.due_s = self._waiting, [], None
        return [waiting[start : start + _MAX_IN_REQUEST] for start in range(0, len(waiting), _MAX_IN_REQUEST)]

    def settle(self, sent: Sequence[Item]) -> None:
        """Forget alerts whose end was delivered or given up."""

    def abandoned(self) -> int:
        """Return how many requests are lost at the end."""
        return len(self.take(0))

    def written(self, items: Sequence[Item], now_ns: int) -> Json:  # noqa: ARG002 - as Alerts
        """Write the body of a request; `now_ns` is wall-clock time."""
        written: JsonObject = {
            "version": 1,
            "regressions": [regression_json(one.began, self._trace_url) for one in items if isinstance(one, Alert)],
        }
        failures: list[Json] = [notice_json(one, self._trace_url) for one in items if isinstance(one, Notice)]
        return {**written, "failures": failures} if failures else written


class Alerts(Events):
    """Alertmanager: the alerts that are on, and those whose end has not been delivered."""

    def __init__(self, trace_url: str | None) -> None:
        super().__init__(trace_url)
        self._alerts: dict[Stream, Alert] = {}

    def add(self, regressions: Sequence[Regression], now_s: float) -> int:
        """Take regressions that began, changed or ended, to be sent at once; return how many there was no room for."""
        dropped = 0
        for regression in regressions:
            known = self._alerts.get(regression.stream)
            if known is None and len(self._alerts) >= _MAX_ALERTS:
                dropped += 1
            elif regression.phase == "ended":
                began = regression if known is None else known.began
                self._alerts[regression.stream] = Alert(began=began, ended=regression)
            else:
                # Alertmanager takes another start for another alert.
                at_ns = known.began.at_ns if regression.phase == "updated" and known else regression.at_ns
                self._alerts[regression.stream] = Alert(began=replace(regression, at_ns=at_ns))
        if self._alerts:
            self.due_s = now_s
        return dropped

    def set_active(self, regressions: Sequence[Regression], now_s: float) -> int:
        """Take regressions that have lasted since before this process began."""
        return self.add([each for each in regressions if each.phase == "began"], now_s)

    def take(self, now_s: float) -> list[Sequence[Item]]:
        """Return what to send now, by request."""
        alerts, self._waiting = (*self._waiting, *self._alerts.values()), []
        self.due_s = now_s + RESEND_S if self._alerts else None
        return [
            alerts[start : start + _MAX_ALERTS_IN_REQUEST] for start in range(0, len(alerts), _MAX_ALERTS_IN_REQUEST)
        ]

    def settle(self, sent: Sequence[Item]) -> None:
        """Forget alerts whose end was delivered or given up."""
        for alert in sent:
            if isinstance(alert, Alert) and alert.ended is not None and self._alerts.get(alert.began.stream) is alert:
                del self._alerts[alert.began.stream]
        if not self._alerts and not self._waiting:
            self.due_s = None

    def abandoned(self) -> int:
        """Return how many failed runs are lost: Alertmanager resolves alerts that are not sent again."""
        return len(self._waiting)

    def written(self, items: Sequence[Item], now_ns: int) -> Json:
        """Write the body of a request; `now_ns` is wall-clock time."""
        return [
            _alert(one, self._trace_url, now_ns) if isinstance(one, Alert) else notice_alert(one, self._trace_url)
            for one in items
        ]


def alerts_url(url: str) -> str:
    """Add the API's path to a base URL."""
    parts = urlsplit(url)
    path = parts.path.rstrip("/")
    return urlunsplit(parts._replace(path=path if path.endswith(_ALERTS_PATH) else path + _ALERTS_PATH))


def _alert(alert: Alert, trace_url: str | None, now_ns: int) -> JsonObject:
    newest = alert.began if alert.ended is None else alert.ended
    ends_ns = now_ns + _LASTS_NS if alert.ended is None else min(alert.ended.at_ns, now_ns)
    labels: JsonObject = {"alertname": ALERT_NAME, "severity": "warning"}
    for label, value in stream_labels(newest.stream):
        labels[label.replace(".", "_")] = value
    low, high = newest.interval
    description = (
        f"Mean score {newest.current:.4g} (95 % interval {low:.4g} to {high:.4g}) of {newest.observations} "
        f"conversations since {iso_time(newest.onset_ns // SECOND * SECOND)}; baseline {newest.baseline:.4g}."
    )
    annotations: JsonObject = {
        "summary": sentence(newest),
        "description": description,
        "incident": fit_label(newest.incident),
        "onset": iso_time(newest.onset_ns),
    }
    if causes := cause_sentences(newest):
        annotations["cause"] = "; then ".join(causes)
    for name, traces in (("traces_before", newest.before), ("traces_after", newest.after)):
        shown = trace_links(traces, trace_url) or valid_traces(traces)
        if shown:
            annotations[name] = " ".join(shown)
    # The time of the alarm, not of the onset: alerts that started long ago are not waited for by `group_wait`, and
    # those of one incident would come one by one. Never behind the end, which Alertmanager refuses.
    written: JsonObject = {
        "labels": labels,
        "annotations": annotations,
        "startsAt": iso_time(min(alert.began.at_ns, ends_ns)),
        "endsAt": iso_time(ends_ns),
    }
    links = trace_links(newest.after, trace_url)
    if links:
        written["generatorURL"] = links[0]
    return written


class _Webhook:
    """One destination: a task that sends all that is due, one request at a time. Belongs to the event loop."""

    def __init__(
        self,
        settings: WebhookSettings,
        name: str,
        trace_url: str | None,
        metrics: WebhookMetrics,
        clock: Callable[[], int],
        user_agent: str,
    ) -> None:
        is_alertmanager = settings.format == "alertmanager"
        self._settings = settings
        self._name = name
        self._url = alerts_url(settings.url) if is_alertmanager else settings.url
        self._messages = Alerts(trace_url) if is_alertmanager else Events(trace_url)
        self._metrics = metrics
        self._clock = clock
        headers = dict(checked_headers(settings.headers, name))
        self._headers = {**headers, "Content-Type": "application/json", "User-Agent": user_agent}
        self._proxy: str | None = None
        self._changed = asyncio.Event()
        self._closing = asyncio.Event()
        self._causes = Throttle()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start; raise `StartError` when a TLS file or the proxy cannot be used."""
        self._proxy = proxy_of(self._url)
        if self._settings.client_tls is not None:
            client_context(self._settings.client_tls)
        self._metrics.notifications.begin(*((self._name, outcome) for outcome in ("sent", "retried", "dropped")))
        self._task = asyncio.create_task(self._work())

    def put(self, regressions: Sequence[Regression], is_known: bool) -> None:  # noqa: FBT001 - for `call_soon_threadsafe`
        take = self._messages.set_active if is_known else self._messages.add
        self._count_dropped(take(regressions, _now_s()), "too many wait")
        self._changed.set()

    def notify(self, notices: Sequence[Notice]) -> None:
        wanted = [notice for notice in notices if is_wanted(notice, self._settings.notify)]
        if wanted:
            self._count_dropped(self._messages.notify(wanted, _now_s()), "too many wait")
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
                    sent = requests.popleft()
                    if isinstance(verdict, Permanent):
                        self._count_dropped(1, verdict.reason)
                    else:
                        self._metrics.notifications.add(1, (self._name, "sent"))
                    self._messages.settle(sent)
            finally:
                self._count_dropped(len(requests), "shutdown")

    async def _is_due(self) -> bool:
        """Wait for something to send; False when there is nothing more to come."""
        while True:
            self._changed.clear()
            due_s = self._messages.due_s
            if self._closing.is_set():
                return due_s is not None
            wait_s = None if due_s is None else due_s - _now_s()
            if wait_s is not None and wait_s <= 0:
                return True
            await wait(self._changed, wait_s)

    async def _delivered(self, items: Sequence[Item]) -> Verdict:
        began_s, backoff = _now_s(), Backoff(self._settings.retry, random.random)
        while isinstance(verdict := await self._attempt(items), Transient):
            cause = f"{verdict.reason}: {verdict.cause}" if verdict.cause else verdict.reason
            if self._causes.suppressed(cause) is not None:
                _LOG.warning("webhook %s does not take notifications (%s); retrying", self._name, cause)
            wait_s = backoff.next_wait_s(elapsed_s=_now_s() - began_s, retry_after_s=verdict.retry_after_s)
            if wait_s is None:
                return Permanent(verdict.reason)
            if self._closing.is_set():
                # There is no later: try again until `close` has no time left.
                await asyncio.sleep(_HURRIED_WAIT_S)
            else:
                await wait(self._closing, wait_s)
            self._metrics.notifications.add(1, (self._name, "retried"))
        return verdict

    async def _attempt(self, items: Sequence[Item]) -> Verdict:
        body = json.dumps(self._messages.written(items, self._clock())).encode()
        tls = self._settings.client_tls
        try:
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
                # Of the answer only the status counts; a request whose answer broke off may not have been taken.
                await response.content.read(_MAX_ANSWER_BYTES)
                status = response.status
                if 200 <= status < 300:
                    return DELIVERED
                if status == _TOO_MANY_REQUESTS or status >= 500:
                    return Transient(f"http_{status}", asked_wait_s(response))
                return Permanent(f"http_{status}")
        except FAILURES as error:
            return failed(error)
        except Exception as error:  # noqa: BLE001 - a sender task must outlive whatever one request does to it
            # Not the message, which may quote the URL.
            return Permanent(f"internal_{type(error).__name__}")

    def _count_dropped(self, notifications: int, reason: str) -> None:
        if notifications:
            self._metrics.notifications.add(notifications, (self._name, "dropped"))
            _LOG.warning("webhook %s: %d notifications dropped: %s", self._name, notifications, reason)


class Webhooks:
    """All webhooks. `put` and `set_active` may be called in any thread; `clock` yields wall-clock nanoseconds."""

    def __init__(
        self,
        settings: Sequence[WebhookSettings],
        trace_url: str | None,
        metrics: WebhookMetrics,
        *,
        clock: Callable[[], int],
        user_agent: str,
    ) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._webhooks: list[_Webhook] = []
        for number, one in enumerate(settings, 1):
            name = one.name or ("webhook" if number == 1 else f"webhook/{number}")
            self._webhooks.append(_Webhook(one, name, trace_url, metrics, clock, user_agent))

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
        """Announce regressions that began, changed or ended; before `start` and after `close` they are ignored."""
        self._put(regressions, is_known=False)

    def notify(self, notices: Sequence[Notice]) -> None:
        """Announce failed runs to the webhooks that want them; before `start` and after `close` they are ignored."""
        with self._lock:
            if self._loop is not None:
                for webhook in self._webhooks:
                    self._loop.call_soon_threadsafe(webhook.notify, notices)

    def set_active(self, regressions: Sequence[Regression]) -> None:
        """Announce again, after a restart, the regressions that last: Alertmanager would resolve them otherwise."""
        self._put(regressions, is_known=True)

    async def close(self, timeout_s: float) -> None:
        """Send what waits within the time, and drop the rest. Lasting alerts are not resolved. Works twice, and without a start."""
        with self._lock:
            # Regressions that were put before come first.
            self._loop = None
        await asyncio.sleep(0)
        await self._close_all(timeout_s)

    def _put(self, regressions: Sequence[Regression], *, is_known: bool) -> None:
        with self._lock:
            if self._loop is not None:
                for webhook in self._webhooks:
                    self._loop.call_soon_threadsafe(webhook.put, regressions, is_known)

    async def _close_all(self, timeout_s: float) -> None:
        await asyncio.gather(*(webhook.close(timeout_s) for webhook in self._webhooks))


def _now_s() -> float:
    return asyncio.get_running_loop().time()
