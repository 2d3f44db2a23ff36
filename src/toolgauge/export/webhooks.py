"""Announces regressions and failed runs to webhooks, as JSON.

A request that is given up is counted, and logged without URL, headers or body, which may hold secrets.
"""

import asyncio
import json
import logging
import math
import random
import threading
import time
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import TypeAlias

from toolgauge.export.destination import Backoff, wait
from toolgauge.export.regression_events import (
    Alert,
    OpenIncidents,
    incident_sentence,
    iso_time,
    quoted,
    regression_json,
    trace_links,
)
from toolgauge.export.sender import HttpAnswer, HttpClient, Permanent, Transient, Verdict, proxy_of
from toolgauge.export.settings import WebhookSettings, checked_headers
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.metrics import fit_label
from toolgauge.model.notices import Notice
from toolgauge.model.plain_words import with_spaces
from toolgauge.model.regressions import Regression
from toolgauge.net.throttle import Throttle
from toolgauge.net.tls import client_context
from toolgauge.selfmetrics import WebhookMetrics

_LOG = logging.getLogger("toolgauge.webhooks")
_MAX_ALERTS = 5000
# Regressions of one incident that begin within this time are one message; later ones update it, at last once a minute.
GROUP_S = 2.0
_MOST_QUIET_S = 60.0
MAX_WAITING = 1000
_MAX_IN_REQUEST = 100
# Between attempts while there is little time left.
_HURRIED_WAIT_S = 0.25
# Chats read `<...>` as links and mentions.
_LINKS = str.maketrans("<>", "\ufffd\ufffd")
Item: TypeAlias = Alert | Notice


def notice_title(notice: Notice) -> str:
    """Name the criterion that failed, and where."""
    named = (("of", notice.tool), ("in a run of agent", notice.agent), ("of service", notice.service))
    where = " ".join(f"{word} {quoted(name)}" for word, name in named if name)
    failed = "fails while the run goes on" if notice.is_open else "failed"
    return f"{quoted(notice.criterion)} {where}".rstrip() + f" {failed}"


def notice_sentence(notice: Notice) -> str:
    """Write a failed run so that a person understands it without anything else."""
    return f"{notice_title(notice)}: {with_spaces(notice.explanation).translate(_LINKS)}"


class Events:
    """Plain JSON: one request when an incident begins, changes or ends, and failed runs at once.

    Times are seconds of the loop's clock. Each request of an incident waits twice as long for more news of it as the one before.
    """

    def __init__(self, trace_url: str | None) -> None:
        self._trace_url = trace_url
        self._notices: list[Notice] = []
        self._incidents = OpenIncidents(_MAX_ALERTS)
        # By incident: when to send next, how many requests there were, and when the newest one was made.
        self._due: dict[str, float] = {}
        self._requests: dict[str, tuple[int, float]] = {}

    @property
    def due_s(self) -> float | None:
        """When to send next; `None` without news."""
        return 0.0 if self._notices else min(self._due.values(), default=None)

    def add(self, regressions: Sequence[Regression], now_s: float) -> int:
        """Take regressions that began, changed or ended; return the number without room."""
        dropped = self._incidents.add(regressions)
        for regression in regressions:
            incident = regression.incident
            if regression.phase != "ended" or not self._incidents.lasts(incident):
                count, sent_s = self._requests.get(incident, (0, now_s))
                quiet_s = min(GROUP_S * 2**count, _MOST_QUIET_S) if count else 0.0
                self._due.setdefault(incident, max(now_s + GROUP_S, sent_s + quiet_s))
        return dropped

    def notify(self, notices: Sequence[Notice]) -> int:
        """Take failed runs, to be sent at once; return the number without room."""
        taken = notices[: MAX_WAITING - len(self._notices)]
        self._notices.extend(taken)
        return len(notices) - len(taken)

    def set_active(self, regressions: Sequence[Regression], now_s: float) -> int:
        """Take regressions that have lasted since before this process began: they were announced then."""
        self._requests |= {each.incident: (1, now_s) for each in regressions}
        return self._incidents.add(regressions)

    def take(self, now_s: float) -> list[Sequence[Item]]:
        """Return what to send now, by request."""
        notices, self._notices = self._notices, []
        starts = range(0, len(notices), _MAX_IN_REQUEST)
        requests: list[Sequence[Item]] = [notices[start : start + _MAX_IN_REQUEST] for start in starts]
        for incident in [each for each, due_s in self._due.items() if due_s <= now_s]:
            del self._due[incident]
            if alerts := self._incidents.of(incident):
                count, _ = self._requests.get(incident, (0, now_s))
                self._requests[incident] = count + 1, now_s
                requests.append(alerts)
        return requests

    def settle(self, sent: Sequence[Item]) -> None:
        """Forget an incident whose end was delivered or given up."""
        alerts = [one for one in sent if isinstance(one, Alert)]
        for incident in {one.newest.incident for one in alerts}:
            if not self._incidents.lasts(incident) and incident not in self._due:
                self._requests.pop(incident, None)
                for alert in alerts:
                    self._incidents.forget(alert)

    def written(self, items: Sequence[Item]) -> Json:
        """Write the body of a request."""
        alerts = [one for one in items if isinstance(one, Alert)]
        if not alerts:
            failures: list[Json] = []
            for one in items:
                if isinstance(one, Notice):
                    names = {"service": one.service, "agent": one.agent, "tool": one.tool, "criterion": one.criterion}
                    failures.append(
                        {
                            "sentence": notice_sentence(one),
                            **{key: None if name is None else fit_label(name) for key, name in names.items()},
                            "explanation": one.explanation,
                            "is_open": one.is_open,
                            "at": iso_time(one.at_ns),
                            "trace_id": one.trace_id,
                            "url": next(iter(trace_links((one.trace_id,), self._trace_url)), None),
                        }
                    )
            return {"version": 1, "regressions": [], "failures": failures}
        first, lasting = alerts[0].newest, sum(not alert.has_ended for alert in alerts)
        count, _ = self._requests.get(first.incident, (1, 0.0))
        incident: JsonObject = {
            "id": fit_label(first.incident),
            "phase": "ended" if not lasting else "began" if count == 1 else "updated",
            "sentence": incident_sentence(alerts),
            "began": iso_time(min(alert.began_ns for alert in alerts)),
            "streams": len(alerts),
            "lasting": lasting,
        }
        shown = alerts[:_MAX_IN_REQUEST]
        regressions: list[Json] = [regression_json(one.newest, self._trace_url) for one in shown]
        return {"version": 1, "incident": incident, "regressions": regressions}


_Take: TypeAlias = Callable[["_Webhook"], int]


class _Webhook:
    """One destination: a task that sends all that is due, one request at a time. Belongs to the event loop."""

    def __init__(
        self,
        settings: WebhookSettings,
        name: str,
        trace_url: str | None,
        metrics: WebhookMetrics,
        user_agent: str,
    ) -> None:
        self._settings = settings
        self._name = name
        self.messages = Events(trace_url)
        self._metrics = metrics
        headers = dict(checked_headers(settings.headers, name))
        self._headers = {**headers, "Content-Type": "application/json", "User-Agent": user_agent}
        self._changed = asyncio.Event()
        self._closing = asyncio.Event()
        self._causes = Throttle()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        proxy_of(self._settings.url)
        if self._settings.client_tls is not None:
            client_context(self._settings.client_tls)
        self._metrics.notifications.begin(*((self._name, outcome) for outcome in ("sent", "retried", "dropped")))
        self._task = asyncio.create_task(self._work())

    def wanted(self, notices: Sequence[Notice]) -> Sequence[Notice]:
        """Return the failed runs of criteria that the webhook names; without names, of those with `notify: true`."""
        names = self._settings.notify
        if names is None:
            return [one for one in notices if one.is_marked]
        return [one for one in notices if any(fnmatchcase(one.criterion, glob) for glob in names)]

    def take(self, take: _Take) -> None:
        """Take news, which returns the number without room."""
        self._count_dropped(take(self), "too many wait")
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
        self._count_dropped(len(self.messages.take(math.inf)), "shutdown")

    async def _work(self) -> None:
        is_last = False
        while not is_last:
            self._changed.clear()
            is_last, due_s = self._closing.is_set(), self.messages.due_s
            if not is_last and (due_s is None or due_s > time.monotonic()):
                await wait(self._changed, None if due_s is None else due_s - time.monotonic())
                continue
            requests = self.messages.take(math.inf if is_last else time.monotonic())
            try:
                while requests:
                    verdict = await self._delivered(requests[0])
                    sent = requests.pop(0)
                    if isinstance(verdict, Permanent):
                        self._count_dropped(1, verdict.reason)
                    else:
                        self._metrics.notifications.add(1, (self._name, "sent"))
                    self.messages.settle(sent)
            finally:
                self._count_dropped(len(requests), "shutdown")

    async def _delivered(self, items: Sequence[Item]) -> Verdict:
        began_s, backoff = time.monotonic(), Backoff(self._settings.retry, random.random)
        while isinstance(verdict := await self._attempt(items), Transient):
            cause = f"{verdict.reason}: {verdict.cause}" if verdict.cause else verdict.reason
            if self._causes.suppressed(cause) is not None:
                _LOG.warning("webhook %s does not take notifications (%s); retrying", self._name, cause)
            wait_s = backoff.next_wait_s(elapsed_s=time.monotonic() - began_s, retry_after_s=verdict.retry_after_s)
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
        body = json.dumps(self.messages.written(items)).encode()
        client = HttpClient(self._settings.client_tls, self._settings.timeout, connections=1, headers=self._headers)
        try:
            await client.start((self._settings.url,))
            answer = await client.exchange("POST", self._settings.url, body)
        except Exception as error:  # noqa: BLE001 - a sender task must outlive all faults of one request
            # Not the message, which may quote the URL.
            return Permanent(f"internal_{type(error).__name__}")
        finally:
            await client.close()
        if not isinstance(answer, HttpAnswer):
            return answer
        return Transient(f"http_{answer.status}", answer.retry_after_s) if answer.status >= 500 else answer.verdict

    def _count_dropped(self, notifications: int, reason: str) -> None:
        if notifications:
            self._metrics.notifications.add(notifications, (self._name, "dropped"))
            _LOG.warning("webhook %s: %d notifications dropped: %s", self._name, notifications, reason)


class Webhooks:
    """All webhooks. `put`, `notify` and `set_active` may be called in any thread."""

    def __init__(
        self,
        settings: Sequence[WebhookSettings],
        trace_url: str | None,
        metrics: WebhookMetrics,
        *,
        user_agent: str,
    ) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._webhooks: list[_Webhook] = []
        for number, one in enumerate(settings, 1):
            name = one.name or ("webhook" if number == 1 else f"webhook/{number}")
            self._webhooks.append(_Webhook(one, name, trace_url, metrics, user_agent))

    async def start(self) -> None:
        """Start a task for each; nothing connects before the first regression. Raise `StartError` as their TLS does."""
        try:
            for webhook in self._webhooks:
                webhook.start()
        except BaseException:
            await self.close(0)
            raise
        with self._lock:
            self._loop = asyncio.get_running_loop()

    def put(self, regressions: Sequence[Regression]) -> None:
        """Announce regressions that began, changed or ended; before `start` and after `close` they are ignored."""
        self._hand_over(lambda webhook: webhook.messages.add(regressions, time.monotonic()))

    def notify(self, notices: Sequence[Notice]) -> None:
        """Announce failed runs to the webhooks that want them; before `start` and after `close` they are ignored."""
        self._hand_over(lambda webhook: webhook.messages.notify(webhook.wanted(notices)))

    def set_active(self, regressions: Sequence[Regression]) -> None:
        """Take, after a restart, the lasting regressions that an earlier process announced."""
        self._hand_over(lambda webhook: webhook.messages.set_active(regressions, time.monotonic()))

    def _hand_over(self, take: _Take) -> None:
        with self._lock:
            if self._loop is not None:
                for webhook in self._webhooks:
                    self._loop.call_soon_threadsafe(webhook.take, take)

    async def close(self, timeout_s: float) -> None:
        """Send the waiting requests within the time, and drop the rest. Lasting alerts are not resolved. Works twice, and without a start."""
        with self._lock:
            # Regressions that were put before come first.
            self._loop = None
        await asyncio.sleep(0)
        await asyncio.gather(*(webhook.close(timeout_s) for webhook in self._webhooks))
