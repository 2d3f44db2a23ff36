"""Compares external verdicts with the outcomes of criteria, trace by trace and conversation by conversation.

A verdict waits until its trace or conversation has been quiet for `assemble.late_memory`. Memory is bounded. Belongs to one thread.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from functools import lru_cache
from hashlib import blake2b
from itertools import product
from typing import TypeAlias

from msgspec import Struct

from toolgauge.model.feedback import Feedback
from toolgauge.model.metrics import fit_label
from toolgauge.model.outcomes import Scorecard, Verdict
from toolgauge.selfmetrics import FeedbackMetrics

_MOST_NAMES = 20
_OTHER = "_other"
_VERDICTS = ("pass", "fail")
_OUTCOMES = ("pass", "fail", "not_evaluated")
# A trace's id as bytes, or a digest of a conversation's, which is as long as its producer likes.
_Key: TypeAlias = bytes


# Of each criterion, by its number: whether it applied, scored a subject, and failed one.
_APPLIED, _JUDGED, _FAILED, _BITS = 1, 2, 4, 3
# When the last findings came, and all of them as bits.
_Outcomes: TypeAlias = tuple[int, int]


class _Waiting(Struct):
    """Verdicts that wait, by name: `None` where there were different ones."""

    last_ns: int
    bits: int
    verdicts: dict[str, bool | None]


class FeedbackAgreement:
    """Implements `model.feedback.FeedbackSink`; remembers `capacity` traces and conversations for `keep_ns`.

    `on_feedback` is given each verdict as it arrives.
    """

    def __init__(
        self,
        capacity: int,
        keep_ns: int,
        metrics: FeedbackMetrics,
        on_feedback: Callable[[Feedback], None] = lambda _feedback: None,
    ) -> None:
        self._capacity = capacity
        self._keep_ns = keep_ns
        self._metrics = metrics
        self._on_feedback = on_feedback
        self._numbers: dict[tuple[str, str], int] = {}
        self._bits = lru_cache(maxsize=4096)(self._bits_of)
        # Both with the least recently used first. In a plain dict, looking for the front passes over all removed entries.
        self._outcomes: OrderedDict[_Key, _Outcomes] = OrderedDict()
        self._waiting: OrderedDict[_Key, _Waiting] = OrderedDict()
        self._names: set[str] = set()

    @property
    def next_due_ns(self) -> int | None:
        """When the oldest verdict is to be compared."""
        oldest = next(iter(self._waiting.values()), None)
        return None if oldest is None else oldest.last_ns + self._keep_ns

    def add(self, feedback: Feedback, now_ns: int) -> None:
        """Take one verdict."""
        if feedback.passed is None:
            self._metrics.verdicts.add(1, ("unread",))
            return
        self._on_feedback(feedback)
        if feedback.trace_id is None:
            key = _conversation_key(feedback.conversation_id or "")
        else:
            key = bytes.fromhex(feedback.trace_id)
        waiting = self._waiting.pop(key, None)
        if waiting is None:
            if len(self._waiting) >= self._capacity:
                self._compare(next(iter(self._waiting)))
            self._forget_outcomes(now_ns)
            waiting = _Waiting(*self._outcomes.get(key, (now_ns, 0)), {})
        waiting.last_ns = max(waiting.last_ns, now_ns)
        self._waiting[key] = waiting
        # Names come from clients: so many are labels, the others are one.
        name = fit_label(feedback.name)
        if name not in self._names:
            if len(self._names) >= _MOST_NAMES:
                name = _OTHER
            self._names.add(name)
            self._begin(self._numbers, (name,))
        before = waiting.verdicts.setdefault(name, feedback.passed)
        if before != feedback.passed:
            waiting.verdicts[name] = None

    def observe(self, scorecard: Scorecard) -> None:
        """Take the results of a trajectory; they wait for verdicts, or join waiting ones."""
        if not scorecard.results:
            return
        trajectory, now_ns, bits = scorecard.trajectory, scorecard.scored_at_ns, 0
        for verdict in scorecard.verdicts:
            bits |= self._bits(verdict)
        keys = [bytes.fromhex(trajectory.trace_id)] if trajectory.scope == "trace" else []
        if trajectory.conversation_id is not None:
            keys.append(_conversation_key(trajectory.conversation_id))
        outcomes = self._outcomes
        for key in keys:
            last_ns, before = outcomes.pop(key, (now_ns, 0))
            outcomes[key] = max(last_ns, now_ns), before | bits
            if key in self._waiting:
                waiting = self._waiting[key]
                waiting.last_ns, waiting.bits = max(waiting.last_ns, now_ns), waiting.bits | bits
                self._waiting.move_to_end(key)
        self._forget_outcomes(now_ns)

    def tick(self, now_ns: int) -> None:
        """Compare verdicts of traces and conversations that have been quiet for long enough."""
        while self._waiting:
            oldest = next(iter(self._waiting))
            if self._waiting[oldest].last_ns + self._keep_ns > now_ns:
                break
            self._compare(oldest)

    def close(self) -> None:
        """Compare all verdicts that wait: no more outcomes will come."""
        while self._waiting:
            self._compare(next(iter(self._waiting)))

    def _bits_of(self, verdict: Verdict) -> int:
        bits = 0
        for finding in verdict.findings:
            # Passes of a criterion that cannot fail mean nothing.
            if finding.can_fail:
                criterion = finding.criterion, finding.revision
                if criterion not in self._numbers:
                    self._numbers[criterion] = len(self._numbers)
                    self._begin([criterion], self._names)
                found = _APPLIED if finding.value is None else _APPLIED | _JUDGED
                bits |= (found | _FAILED if finding.word == "fail" else found) << _BITS * self._numbers[criterion]
        return bits

    def _forget_outcomes(self, now_ns: int) -> None:
        outcomes = self._outcomes
        while outcomes:
            oldest = next(iter(outcomes))
            if len(outcomes) <= self._capacity and now_ns - outcomes[oldest][0] <= self._keep_ns:
                return
            del outcomes[oldest]

    def _compare(self, key: _Key) -> None:
        waiting, verdicts = self._waiting.pop(key), self._metrics.verdicts
        for name, passed in waiting.verdicts.items():
            if passed is None:
                verdicts.add(1, ("contradicted",))
            elif not waiting.bits:
                verdicts.add(1, ("unmatched",))
            else:
                verdicts.add(1, ("compared",))
                for (criterion, revision), number in self._numbers.items():
                    found = waiting.bits >> _BITS * number
                    if found & _APPLIED:
                        word = "fail" if found & _FAILED else "pass" if found & _JUDGED else "not_evaluated"
                        labels = fit_label(criterion), fit_label(revision), name, "pass" if passed else "fail", word
                        self._metrics.agreement.add(1, labels)

    def _begin(self, criteria: Iterable[tuple[str, str]], names: Iterable[str]) -> None:
        """Count from 0, long before the first verdict is compared: a counter that begins at 1 shows no increase."""
        pairs = [
            (fit_label(criterion), fit_label(revision), name) for criterion, revision in criteria for name in names
        ]
        for labels in product(pairs, _VERDICTS, _OUTCOMES):
            self._metrics.agreement.begin((*labels[0], *labels[1:]))


def _conversation_key(conversation_id: str) -> _Key:
    return b"c" + blake2b(conversation_id.encode("utf-8", "surrogatepass"), digest_size=16).digest()
