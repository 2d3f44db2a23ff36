"""Tail sampling for one destination: keeps traces by their results, whole, and a share of the others.

Spans and log records wait until the results of their trace are known, then leave or are dropped as `sampled`. Without this wait the
first spans of a failing run would be gone before it fails. Where room or time is short, or results stay unknown, a trace leaves
unsampled. Later spans follow the decision. Decisions are consistent: they compare the randomness of the conversation, or of the
trace, with the threshold of a share.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from hashlib import blake2b
from itertools import chain
from sys import maxsize
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from cachetools import LRUCache
from msgspec import Struct
from msgspec.structs import replace

from toolgauge.export.settings import KeepSettings
from toolgauge.model.delivery import REQUEST_BYTES, Outgoing, Signal, merged
from toolgauge.model.journal import ClosedId, SamplingDecision
from toolgauge.model.metrics import MAX_LABEL
from toolgauge.model.names import stable_tool
from toolgauge.model.outcomes import Scorecard
from toolgauge.model.records import VERSION
from toolgauge.otlp.encode import request_with_sampling, sampling_of, threshold_of
from toolgauge.otlp.request import TraceRequest, copied_items, split_by_trace
from toolgauge.selfmetrics import SelfMetrics
from toolgauge.state.ledger import Ledger

if TYPE_CHECKING:
    # It loads the event loop, which commands that send nothing do without.
    from toolgauge.export.send_queue import SendQueue

# The least recently used are forgotten beyond: decided traces, conversations that failed.
_MAX_IDS = 100_000
# Seen names of tools and versions; later ones are no longer first.
_MAX_NAMES = 10_000
# Memory of a request beside its body.
_REQUEST_BYTES = 512
_UNSAMPLED = SamplingDecision(is_kept=True)
_RANDOM_BYTES = 7
_SAMPLED = b"ot="
# Whether the assembler knows a trace with a run of an agent, open or closed a while ago.
HasRun: TypeAlias = Callable[[str], bool]
UnsampledReason: TypeAlias = Literal["full", "wait", "overload", "memory", "shutdown"]


class _Waiting(Struct):
    """The requests of a trace; `share` and `decision` where results are known, and judges have not answered yet."""

    first_ns: int
    requests: list[Outgoing] = []
    share: float = 0.0
    decision: SamplingDecision | None = None


class Keep:
    """The waiting traces of one destination. Belongs to the holder of the metrics' lock."""

    def __init__(
        self, name: str, settings: KeepSettings, queue: "SendQueue", metrics: SelfMetrics, ledger: Ledger
    ) -> None:
        self.name = name
        self._settings = settings
        self._queue = queue
        self._metrics = metrics
        self._ledger = ledger
        self._clock = metrics.registry.clock
        # By trace, the first to begin in front.
        self._waiting: OrderedDict[str, _Waiting] = OrderedDict()
        # Waiting traces whose root has come, and when the last of them came, the most quiet in front.
        self._rooted: OrderedDict[str, int] = OrderedDict()
        self.decided: LRUCache[str, SamplingDecision] = LRUCache(_MAX_IDS)
        # The shares of conversations in which something failed; hashes stand for ids, which may be long.
        self._failed: LRUCache[int, float] = LRUCache(_MAX_IDS)
        self._names: set[tuple[str, ...]] = set()
        # Kept, and without room in the queue.
        self._ready: dict[Signal, deque[Outgoing]] = {"traces": deque(), "logs": deque()}
        self._is_closed = False
        # Of all requests that wait here.
        self.size_bytes = 0
        self.spans = 0
        metrics.spans.begin(("dropped", "sampled", name))
        metrics.keep_unsampled.begin(*((name, reason) for reason in get_args(UnsampledReason)))

    def has_room(self, size_bytes: int) -> bool:
        """Return whether `put` would take a request of this size now."""
        fits = self.size_bytes + size_bytes + _REQUEST_BYTES <= self._settings.max_bytes
        # Small requests may still fit where the ready ones do not: taken in, they would pile up behind these.
        passes = not any(self._ready.values()) and self._queue.has_room(size_bytes, own=False)
        return not self._is_closed and (fits or passes)

    def put(self, outgoing: Outgoing) -> bool:
        """Take a senders' request apart by traces; False without room for it."""
        if not self.has_room(len(outgoing.body)):
            return False
        parts = self._split(outgoing)
        if len(parts) < 2:
            self._take(outgoing, *((parts[0].trace_id, parts[0].has_root) if parts else (None, False)))
        else:
            others = tuple(dict.fromkeys(outgoing.entries))
            self._ledger.claim_deliveries(others, len(parts) - 1)
            for number, part in enumerate(parts):
                spans = part.count if outgoing.signal == "traces" else 0
                entries = others if number else outgoing.entries
                one = replace(outgoing, body=part.body, spans=spans, parts=(), entries=entries)
                self._take(one, part.trace_id, part.has_root)
        self._send()
        return True

    def put_own(self, outgoing: Outgoing) -> bool:
        """Send our results of kept traces, drop those of dropped ones, hold the others with their traces; False without room for them."""
        if self._settings.scorecards == "all" or not self._queue.has_room(len(outgoing.body), own=True):
            return self._queue.put(outgoing)
        kept: list[bytes] = []
        waiting: list[tuple[str, Outgoing]] = []
        for part in split_by_trace(outgoing.signal, outgoing.body, maxsize):
            one = replace(outgoing, body=part.body)
            if part.trace_id is not None and part.trace_id in self._waiting:
                waiting.append((part.trace_id, one))
            elif self.drops(part.trace_id):
                self._drop_own(outgoing, "sampled")
            else:
                kept.append(_sampled(one, self.decided.get(part.trace_id or "", _UNSAMPLED)).body)
        self._ledger.claim_deliveries(outgoing.entries, bool(kept) + len(waiting))
        self._ledger.settle(outgoing.entries)
        for trace_id, one in waiting:
            self._take(one, trace_id, has_root=False)
        # Thresholds may have made it too large.
        if kept and not self._queue.put(replace(outgoing, body=b"".join(kept))):
            self._drop_own(outgoing, "queue_full")
            self._ledger.settle(outgoing.entries)
        return True

    def drops(self, trace_id: str | None) -> bool:
        """Return whether a trace was dropped, and our results with it."""
        decision = self.decided.get(trace_id or "", _UNSAMPLED)
        return self._settings.scorecards == "kept" and not decision.is_kept

    def _drop_own(self, outgoing: Outgoing, reason: str) -> None:
        self._metrics.own_dropped.add(1, (self.name, outgoing.signal, reason))

    def _split(self, outgoing: Outgoing) -> list[TraceRequest]:
        """Return a request for each trace; nothing where copies of the resource, one a trace, would take too much memory."""
        parts: list[TraceRequest] = []
        size_bytes = 0
        for part in split_by_trace(outgoing.signal, outgoing.body, maxsize):
            size_bytes += len(part.body)
            if size_bytes > len(outgoing.body) + self._settings.max_bytes:
                self._metrics.keep_unsampled.add(outgoing.spans, (self.name, "full"))
                return []
            parts.append(part)
        return parts

    def _take(self, outgoing: Outgoing, trace_id: str | None, has_root: bool) -> None:  # noqa: FBT001 (few calls)
        size_bytes = len(outgoing.body) + _REQUEST_BYTES
        is_full = self.size_bytes + size_bytes > self._settings.max_bytes
        self.size_bytes += size_bytes
        self.spans += outgoing.spans
        decision = _UNSAMPLED if trace_id is None else self.decided.get(trace_id)
        if trace_id is None or decision is not None:
            self._carry_out(decision or _UNSAMPLED, (outgoing,))
            return
        waiting = self._waiting.get(trace_id)
        if waiting is None:
            waiting = self._waiting[trace_id] = _Waiting(self._clock())
        waiting.requests.append(outgoing)
        if is_full:
            self._go_unsampled(trace_id, "full")
        elif not outgoing.is_read:
            self._go_unsampled(trace_id, "overload")
        elif has_root or trace_id in self._rooted:
            self._rooted[trace_id] = self._clock()
            self._rooted.move_to_end(trace_id)

    def decide(self, scorecard: Scorecard, held: Sequence[bytes]) -> None:
        """Decide by the results of a trace, whose spans `held` come next; results of a conversation count for its later traces."""
        run = scorecard.trajectory
        share, is_known = self._share(scorecard)
        if run.scope != "trace" or run.trace_id in self.decided:
            return
        waiting = self._waiting.setdefault(run.trace_id, _Waiting(self._clock()))
        waiting.share = max(waiting.share, share)
        waiting.decision = self._decision(run.trace_id, run.conversation_id, waiting, held)
        if waiting.share < 1 and not is_known:
            self._go_unsampled(run.trace_id, "overload")
        elif waiting.share == 1 or not scorecard.awaits_judges:
            self._finish(run.trace_id, waiting.decision)

    def _share(self, scorecard: Scorecard) -> tuple[float, bool]:
        """Return the largest share of the rules that the scorecard meets, and whether all of its results are known."""
        run, settings = scorecard.trajectory, self._settings
        findings = [found for verdict in scorecard.verdicts for found in verdict.findings if found.enforce == "live"]
        words = {found.word for found in findings}
        bad = [settings.failed] if "fail" in words else []
        if "error" in words or any(one.error is not None for one in run.runs):
            bad.append(settings.error)
        shares = bad or [settings.passed]
        if run.conversation_id is not None:
            key = _randomness_of(run.conversation_id)
            if bad:
                self._failed[key] = max(self._failed.get(key, 0.0), *bad)
            shares.append(self._failed.get(key, 0.0))
        if settings.slow is not None and run.start_ns and run.end_ns - run.start_ns > settings.slow.over:
            shares.append(settings.slow.share)
        service, names = (run.service or "")[:MAX_LABEL], list[tuple[str, ...]]()
        if "version" in settings.first_of:
            names.append(("version", service, run.resource.get(VERSION, "")[:MAX_LABEL]))
        if "tool" in settings.first_of:
            names += [("tool", service, name) for name in {stable_tool(call.name)[:MAX_LABEL] for call in run.calls}]
        for name in names:
            if name not in self._names and len(self._names) < _MAX_NAMES:
                self._names.add(name)
                shares.append(1.0)
        return max(shares), all(found.reason != "overload" for found in findings)

    def _decision(
        self, trace_id: str, conversation: str | None, waiting: _Waiting, held: Iterable[bytes] = ()
    ) -> SamplingDecision:
        threshold = threshold_of(waiting.share)
        if not threshold:
            return _UNSAMPLED
        own, is_sampled = int(trace_id[-2 * _RANDOM_BYTES :], 16), False
        for raw in chain(held, _sampled_spans(waiting.requests)):
            before, explicit = sampling_of(raw)
            is_sampled = is_sampled or before is not None or explicit is not None
            if explicit is not None:
                own = explicit
                break
        if conversation is None or is_sampled:
            return SamplingDecision(own >= threshold, threshold)
        shared = _randomness_of(conversation)
        return SamplingDecision(shared >= threshold, threshold, shared)

    def tick(self, now_ns: int, idle_ns: int, has_run: HasRun) -> None:
        """Decide on traces without an agent, quiet for `idle_ns`, and on traces that have waited too long; send the kept ones."""
        while self._rooted:
            trace_id, heard_ns = next(iter(self._rooted.items()))
            if now_ns - heard_ns < idle_ns:
                break
            del self._rooted[trace_id]
            if not has_run(trace_id):
                self._finish_without_agent(trace_id)
        while self._waiting:
            trace_id, waiting = next(iter(self._waiting.items()))
            if now_ns - waiting.first_ns < self._settings.wait:
                break
            if waiting.decision is not None:
                self._finish(trace_id, waiting.decision)
            elif has_run(trace_id):
                self._go_unsampled(trace_id, "wait")
            else:
                self._finish_without_agent(trace_id)
        self._send()

    def _finish_without_agent(self, trace_id: str) -> None:
        waiting = self._waiting[trace_id]
        waiting.share = self._settings.not_agent
        self._finish(trace_id, self._decision(trace_id, None, waiting))

    def release(self, reason: UnsampledReason) -> None:
        """Let all waiting traces leave unsampled."""
        for trace_id in tuple(self._waiting):
            self._go_unsampled(trace_id, reason)
        self._send()

    def _go_unsampled(self, trace_id: str, reason: UnsampledReason) -> None:
        spans = sum(one.spans for one in self._waiting[trace_id].requests)
        self._metrics.keep_unsampled.add(spans, (self.name, reason))
        self._finish(trace_id, _UNSAMPLED)

    def _finish(self, trace_id: str, decision: SamplingDecision) -> None:
        self._rooted.pop(trace_id, None)
        self.decided[trace_id] = decision
        self._carry_out(decision, self._waiting.pop(trace_id).requests)

    def _carry_out(self, decision: SamplingDecision, requests: Iterable[Outgoing]) -> None:
        for one in requests:
            if not decision.is_kept:
                self._leave(one)
                self._ledger.settle(one.entries)
                if one.own:
                    self._drop_own(one, "sampled")
                elif one.spans:
                    self._metrics.spans.add(one.spans, ("dropped", "sampled", self.name))
                else:
                    self._metrics.requests_dropped.add(1, (self.name, one.signal, "sampled"))
                continue
            sampled = _sampled(one, decision)
            if not one.own:
                self.size_bytes += len(sampled.body) - len(one.body)
                self._ready[one.signal].append(sampled)
                continue
            self._leave(one)
            if not self._queue.put(sampled):
                self._drop_own(one, "queue_full")
                self._ledger.settle(one.entries)

    def _send(self) -> None:
        """Queue the kept requests, joined: each costs the destination as much as many spans."""
        for ready in self._ready.values():
            while ready:
                batch: list[Outgoing] = []
                size_bytes = 0
                for one in ready:
                    if batch and size_bytes + len(one.body) > REQUEST_BYTES:
                        break
                    batch.append(one)
                    size_bytes += len(one.body)
                if not self._queue.has_room(size_bytes, own=False) or not self._queue.put(merged(batch)):
                    break
                for one in batch:
                    ready.popleft()
                    self._leave(one)

    def _leave(self, outgoing: Outgoing) -> None:
        self.size_bytes -= len(outgoing.body) + _REQUEST_BYTES
        self.spans -= outgoing.spans

    def close(self) -> list[Outgoing]:
        """Take no more; return the waiting requests, and the kept ones that found no room in the queue."""
        self._is_closed = True
        waiting = [one for each in self._waiting.values() for one in each.requests]
        left = [*chain.from_iterable(self._ready.values()), *waiting]
        for ready in self._ready.values():
            ready.clear()
        self._waiting.clear()
        self._rooted.clear()
        self.size_bytes = self.spans = 0
        return left

    def noted(self, trace_id: str) -> SamplingDecision | None:
        """Return the decision on a trace, or its decision without the judges' answers."""
        waiting = self._waiting.get(trace_id)
        return self.decided.get(trace_id) if waiting is None else waiting.decision

    def follow(self, earlier: "Keep") -> None:
        """Take over the decisions of the replaced object; its waiting traces leave unsampled."""
        earlier.release("shutdown")
        self.decided, self._failed, self._names = earlier.decided, earlier._failed, earlier._names  # noqa: SLF001 (of this class)


class Keepers:
    """The tail sampling of all destinations with `keep`. Any thread may call."""

    def __init__(
        self, each: Callable[[], Sequence[Keep]] = tuple, lock: AbstractContextManager[object] | None = None
    ) -> None:
        self._each = each
        self._lock = lock or nullcontext()

    def decide(self, scorecard: Scorecard, held: Sequence[bytes]) -> None:
        """Decide on a trace whose results are known; its spans `held` come next."""
        with self._lock:
            for keep in self._each():
                keep.decide(scorecard, held)

    def tick(self, now_ns: int, idle_ns: int, has_run: HasRun) -> None:
        """Decide on traces that have waited long enough."""
        with self._lock:
            for keep in self._each():
                keep.tick(now_ns, idle_ns, has_run)

    def release(self, reason: UnsampledReason) -> None:
        """Let all waiting traces leave unsampled."""
        with self._lock:
            for keep in self._each():
                keep.release(reason)

    def noted(self, trace_id: str) -> Mapping[str, SamplingDecision]:
        """Return the decisions on a trace by the names of destinations."""
        found: dict[str, SamplingDecision] = {}
        with self._lock:
            for keep in self._each():
                decision = keep.noted(trace_id)
                if decision is not None:
                    found[keep.name] = decision
        return found

    def restored(self, closed: Iterable[ClosedId]) -> Iterator[ClosedId]:
        """Remember the decisions on these traces; yield them again."""
        keeps = {keep.name: keep for keep in self._each()}
        for one in closed:
            for name, decision in one.sampled.items():
                if name in keeps:
                    keeps[name].decided[one.id] = decision
            yield one


def _sampled(outgoing: Outgoing, decision: SamplingDecision) -> Outgoing:
    """Write the threshold of a kept trace into its spans."""
    if not decision.is_kept or not decision.threshold or outgoing.signal != "traces":
        return outgoing
    body = request_with_sampling(outgoing.body, decision.threshold, decision.randomness)
    return replace(outgoing, body=body, parts=())


def _sampled_spans(requests: Iterable[Outgoing]) -> Iterator[bytes]:
    """Yield the spans of requests in which any may have been sampled before."""
    for one in requests:
        if one.signal == "traces" and one.body.find(_SAMPLED) >= 0:
            yield from (raw for _, raw in copied_items(one.body))


def _randomness_of(conversation: str) -> int:
    key = conversation.encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(key, digest_size=_RANDOM_BYTES).digest())
