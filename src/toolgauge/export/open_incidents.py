"""The regressions of one service that began together are one incident: its streams, and one line of text for all of them."""

import math
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from toolgauge.export.regression_events import cause_sentences, listed, sentence, stream_name
from toolgauge.model.regressions import Regression, Stream


class Alert(Struct, frozen=True, kw_only=True):
    """A stream of an incident, as it was announced last. `began_ns` is when its alarm was raised."""

    newest: Regression
    began_ns: int

    @property
    def has_ended(self) -> bool:
        """Whether the stream is as before, or no longer compared."""
        return self.newest.phase == "ended"


class OpenIncidents:
    """The incidents that have a stream in alarm, and those whose end is not announced; with room for so many streams."""

    def __init__(self, room: float = math.inf) -> None:
        self._room = room
        self._alerts: dict[str, dict[Stream, Alert]] = {}

    def add(self, regressions: Iterable[Regression]) -> int:
        """Take regressions that began, changed or ended; return how many there was no room for."""
        room, dropped = self._room - sum(map(len, self._alerts.values())), 0
        for regression in regressions:
            known = self._alerts.get(regression.incident, {}).get(regression.stream)
            if known is None and room < 1:
                dropped += 1
                continue
            room -= known is None
            at_ns = regression.at_ns if known is None or regression.phase == "began" else known.began_ns
            alerts = self._alerts.setdefault(regression.incident, {})
            alerts[regression.stream] = Alert(newest=regression, began_ns=at_ns)
        return dropped

    def of(self, incident: str) -> tuple[Alert, ...]:
        """Return the streams of an incident: those in alarm first, then by the size of the drop."""
        return tuple(sorted(self._alerts.get(incident, {}).values(), key=_rank))

    def lasts(self, incident: str) -> bool:
        """Return whether a stream of the incident is in alarm."""
        return not all(alert.has_ended for alert in self._alerts.get(incident, {}).values())

    def forget(self, alert: Alert) -> None:
        """Forget a stream, if there is no later news of it."""
        incident, stream = alert.newest.incident, alert.newest.stream
        alerts = self._alerts.get(incident, {})
        if alerts.get(stream) is alert:
            del alerts[stream]
            if not alerts:
                del self._alerts[incident]


def _rank(alert: Alert) -> tuple[bool, float, str]:
    newest = alert.newest
    return alert.has_ended, newest.current - newest.baseline, repr(newest.stream)


def incident_sentence(alerts: Sequence[Alert]) -> str:
    """Describe the first stream, and name the others: those in alarm, unless all have ended."""
    first, *others = [one.newest for one in alerts if not one.has_ended] or [one.newest for one in alerts]
    if not others:
        return sentence(first)
    return f"{sentence(first)}, and with it {listed([stream_name(each.stream) for each in others])}"


class IncidentLines:
    """Writes a line when an incident begins and one when it ends, and between them one for each batch of streams with news."""

    def __init__(self) -> None:
        self._open = OpenIncidents()

    def restore(self, active: Iterable[Regression]) -> None:
        """Take regressions that an earlier process announced."""
        self._open.add(active)

    def add(self, regressions: Sequence[Regression]) -> Iterator[tuple[Regression, bool, str]]:
        """Yield a regression of each incident with news, whether that begins the incident, and the line."""
        lasting = {one.incident for one in regressions if self._open.lasts(one.incident)}
        self._open.add(regressions)
        for incident in dict.fromkeys(one.incident for one in regressions):
            alerts = self._open.of(incident)
            has_ended = not self._open.lasts(incident)
            # The end of one of several streams is no news, unless somebody asked for it.
            new = [one for one in regressions if one.phase != "ended" or one.acknowledged]
            news = {one.stream for one in new if one.incident == incident}
            shown = [alert for alert in alerts if has_ended or alert.newest.stream in news]
            if has_ended:
                for alert in alerts:
                    self._open.forget(alert)
            if shown:
                first = shown[0].newest
                causes = () if first.phase == "ended" else cause_sentences(first)
                is_new = not has_ended and incident not in lasting
                joined = "" if is_new or first.phase != "began" else "in the same incident, "
                yield first, is_new, joined + "; ".join((incident_sentence(shown), *causes))
