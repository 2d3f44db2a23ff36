"""The stage beside `score`: asks a judge model within every bound (time, calls a minute, money an hour, retries).

Each inquiry gets exactly one set of outcomes, even when the process ends early. A question is built only when a call is free, so
prompts in memory are as few as calls. A failure becomes an outcome that quotes neither prompts nor keys. A call reserves its highest
possible cost until its cost is known.
"""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from toolgauge.judge.inquiry import Client, Reply, Request, dialogue, outcome_of, outcomes_of, questions, settled
from toolgauge.judge.settings import Budget, JudgeSettings, RateLimit
from toolgauge.model.content import Recorded, Unparsed
from toolgauge.model.errors import JudgeCallError
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.judging import Answers, Inquiry, Judged, JudgeEvaluator, Question
from toolgauge.model.outcomes import Errored, NotEvaluated, Outcome, Scored
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.net.throttle import Throttle, repetitions
from toolgauge.selfmetrics import JudgeMetrics
from toolgauge.settings import SECOND

# A provider that asks for longer than this is reported as down instead of being waited for.
_LONGEST_RETRY_AFTER_S = 60.0
_MAX_RETRIES = 2
# Longer texts are masked in another thread, because the loop would notice.
_LONG_TEXT = 16_384
_CHARACTERS_PER_TOKEN = 3
# Failures that one question causes: the judge answers others.
_OF_A_QUESTION = frozenset(("content_filter", "response_too_large"))
_ADVICE = {
    "authentication": "check `judge.api_key`",
    "connection": "check `judge.base_url` and the network",
    "http_404": "check `judge.model` and `judge.base_url`",
    "rate_limited": "set `judge.calls_per_minute` to what the provider allows",
    "timeout": "raise `judge.timeout`, or ask a faster model",
}
_LOG = logging.getLogger("toolgauge.judge")
_OVER_BUDGET = NotEvaluated(reason="judge_budget", explanation="the money for judges is spent for this hour")


class JudgeModel:
    """Asks questions, any number at a time, and never raises. `redact` masks what leaves; `clock` never goes back, in seconds."""

    def __init__(
        self,
        client: Client,
        settings: JudgeSettings,
        metrics: JudgeMetrics,
        *,
        redact: Callable[[str], str],
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._client = client
        self._settings = settings
        self._metrics = metrics
        self._redact = redact
        self._clock = clock
        self._sleep = sleep
        self._rate_limit = RateLimit(settings.calls_per_minute)
        self._budget = Budget(settings.max_cost_per_hour)
        self._resume_s = 0.0
        self._throttle = Throttle(clock=clock)
        # Since when the judge fails, and how the last call failed.
        self._failing: tuple[float, str] | None = None

    @property
    def trouble(self) -> tuple[str, float] | None:
        """How the last call failed, and for how many seconds no call has been answered; `None` while the judge answers."""
        return None if self._failing is None else (self._failing[1], self._clock() - self._failing[0])

    async def ask(self, evaluator: JudgeEvaluator, question: Question) -> Outcome:
        """Ask until there is a verdict; without one, return the reason as an outcome."""
        try:
            mask = self._by_line
            is_long = len(question.prompt) > _LONG_TEXT
            prompt = await asyncio.to_thread(mask, question.prompt) if is_long else mask(question.prompt)
            shown = replace(question, prompt=prompt, instructions=mask(question.instructions))
        except Exception as error:  # noqa: BLE001 (a question that cannot be masked is not sent)
            return Errored(error_type=type(error).__name__, message="the question could not be masked")
        exchange = dialogue(question, self._redact)
        try:
            request = next(exchange)
            while True:
                reply = await self._replied(replace(request, question=shown))
                if not isinstance(reply, Reply):
                    return reply
                request = exchange.send(reply)
                self._metrics.reasked.add()
        except StopIteration as ended:
            verdict: JsonObject | Errored = ended.value
            if isinstance(verdict, Errored):
                return verdict
            # On a thread: an evaluator of a plug-in may take long.
            return await asyncio.to_thread(outcome_of, evaluator, question, verdict)
        finally:
            exchange.close()

    def _by_line(self, text: str) -> str:
        """Mask each line by itself: a secret that never ends in one quoted text may not swallow the next lines."""
        return "\n".join(map(self._redact, text.split("\n")))

    async def _replied(self, request: Request) -> Reply | Outcome:
        """Call the provider; retry only after the time that it names, and no more than a few times."""
        retries = 0
        while True:
            try:
                return await self._called(request)
            except JudgeCallError as error:
                wait_s = error.retry_after_s
                if wait_s is None or wait_s > _LONGEST_RETRY_AFTER_S or retries == _MAX_RETRIES:
                    return Errored(error_type=error.error_type, message=error.message)
                retries += 1
                # The provider means all of us, not only this call.
                self._resume_s = max(self._resume_s, self._clock() + wait_s)

    async def _called(self, request: Request) -> Reply | Outcome:
        question, settings, clock = request.question, self._settings, self._clock
        tokens = (len(question.instructions) + len(question.prompt)) // _CHARACTERS_PER_TOKEN + 1
        reserved = settings.cost(tokens, settings.max_output_tokens)
        if not self._budget.reserve(reserved, clock()):
            self._metrics.calls.add(1, ("over_budget",))
            return _OVER_BUDGET
        cost = 0.0
        try:
            while (wait_s := self._resume_s - clock()) > 0 or (wait_s := self._rate_limit.wait_s(clock())) > 0:
                await self._sleep(wait_s)
            # A call that is cancelled or times out has been read and may have to be paid for.
            cost = settings.cost(tokens, 0)
            begun = clock()
            try:
                async with asyncio.timeout(settings.timeout / SECOND):
                    reply = await self._client.ask(request)
            finally:
                self._metrics.duration.record(clock() - begun)
            if self._failing is not None:
                self._failing = None
                _LOG.info("the judge answers again")
            # Some endpoints do not report usage: then the request is counted by its length, and the reply not at all.
            read = reply.input_tokens if reply.input_tokens is not None else tokens
            written = reply.output_tokens or 0
            self._metrics.tokens.add(read, ("input",))
            self._metrics.tokens.add(written, ("output",))
            self._metrics.calls.add(1, ("answered" if reply.problem is None else "unusable",))
            cost = settings.cost(read, written)
            return reply
        except TimeoutError:
            return self._failed("timeout", "the judge did not answer in time")
        except JudgeCallError as error:
            cost = 0.0
            self._failed(error.error_type, error.message)
            raise
        except Exception as error:  # noqa: BLE001 (a client may raise anything; it becomes an outcome)
            return self._failed(type(error).__name__, "the client of the judge raised an exception")
        finally:
            self._metrics.cost.add(cost)
            self._budget.charge(reserved, cost, clock())

    def _failed(self, error_type: str, message: str) -> Errored:
        self._metrics.calls.add(1, ("failed",))
        self._metrics.failures.add(1, (error_type,))
        # Rule: a judge that fails is logged, once a minute for each kind of failure, and shown in `/status` until it answers a call.
        if error_type not in _OF_A_QUESTION:
            self._failing = (self._clock() if self._failing is None else self._failing[0], f"{error_type}: {message}")
            suppressed = self._throttle.suppressed(error_type)
            if suppressed is not None:
                advice = _ADVICE.get(error_type, "look at the log of the provider")
                text = "the judge failed (%s): %s: %s%s"
                _LOG.warning(text, error_type, message, advice, repetitions(suppressed))
        return Errored(error_type=error_type, message=message)


_ENTRY_BYTES = 64
_CALL_BYTES = 1024
# Values beyond these count as heavy as their average: weighing runs on the event loop.
_MAX_ENTRIES = 5000
_FULL = NotEvaluated(reason="overload", explanation="the queue of the judges was full")
_ENDED = NotEvaluated(reason="incomplete", explanation="judging was ended before it was done")
_CANCELLED = Errored(error_type="cancelled", message="the call to the judge was cancelled")
_CANCEL_S = 2.0
_CLOSE_S = 2.0

_T = TypeVar("_T")


async def _contained(work: Coroutine[object, object, _T]) -> _T:
    """Let a client raise no exception that would end the loop."""
    try:
        return await work
    except (SystemExit, KeyboardInterrupt) as error:
        raise RuntimeError(type(error).__name__) from error


class ClientThread:
    """Implements `Client` on an event loop and a thread of its own, from the first request to `close`.
    Libraries of providers work for tens of milliseconds a call: on the loop that receives spans, every sender would wait.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._is_closed = False

    async def ask(self, request: Request) -> Reply:
        """Have the client send the request; giving up here gives up there."""
        loop = self._loop or self._begin()
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(_contained(self._client.ask(request)), loop))

    async def close(self) -> None:
        """Close the connections and end the thread. May be called twice."""
        loop, thread = self._loop, self._thread
        self._loop = self._thread = None
        if loop is None or thread is None:
            if not self._is_closed:
                self._is_closed = True
                await self._client.close()
            return
        self._is_closed = True
        closing = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(_contained(self._client.close()), loop))
        await asyncio.wait([closing], timeout=_CLOSE_S)
        loop.call_soon_threadsafe(loop.stop)
        await asyncio.to_thread(thread.join, _CLOSE_S)

    def _begin(self) -> asyncio.AbstractEventLoop:
        runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        loop = self._loop = runner.get_loop()

        def run() -> None:
            # Its end cancels open calls.
            with runner:
                loop.run_forever()

        # A daemon thread: a hanging library must not keep the process alive.
        self._thread = threading.Thread(target=run, name="toolgauge-judges", daemon=True)
        self._thread.start()
        return loop


class _OpenInquiry(Struct, eq=False):
    """One inquiry and its outcomes, in the order of asking; questions still open count as ended."""

    inquiry: Inquiry
    calls: list[ToolCall | None] = []
    outcomes: list[Outcome | None] = []
    is_asked: bool = False

    @property
    def is_done(self) -> bool:
        return self.is_asked and None not in self.outcomes

    def judged(self) -> tuple[Judged, ...]:
        if self.inquiry.settled is not None:
            return ((None, self.inquiry.settled),)
        ended = (_ENDED if outcome is None else outcome for outcome in self.outcomes)
        outcomes = tuple(zip(self.calls, ended, strict=True))
        if self.is_done:
            return outcomes_of(self.inquiry, outcomes)
        if self.inquiry.evaluator.level == "trajectory":
            return ((None, _ENDED),)
        return outcomes if self.is_asked else (*(asked for asked in outcomes if asked[0] is not None), (None, _ENDED))


class _Entry(Struct, frozen=True, eq=False):
    trajectory: Trajectory
    inquiries: list[_OpenInquiry]
    weight: int

    def answers(self) -> Answers:
        return Answers(trajectory=self.trajectory, answers=tuple((one.inquiry, one.judged()) for one in self.inquiries))


class Judges:
    """Judges on the event loop it is started on; implements `model.judging.Judging`."""

    def __init__(self, client: Client, model: JudgeModel, settings: JudgeSettings, metrics: JudgeMetrics) -> None:
        self._client = client
        self.model = model
        self._metrics = metrics
        self._max_queue = settings.max_queue
        self._max_bytes = settings.max_queue_bytes
        self._bytes = 0
        self._free = asyncio.Semaphore(settings.max_concurrent)
        self._waiting: deque[_Entry] = deque()
        # In order of arrival: `close` answers open inquiries in this order.
        self._open: dict[_Entry, None] = {}
        self._done: list[Answers] = []
        self._changed = asyncio.Event()
        self._feeding: asyncio.Task[None] | None = None
        self._calls: set[asyncio.Task[None]] = set()
        self._is_closed = False

    @property
    def open_count(self) -> int:
        """Trajectories that wait or are being judged."""
        return len(self._open)

    @property
    def in_flight(self) -> int:
        """Questions that are being asked."""
        return len(self._calls)

    def put(self, trajectory: Trajectory, inquiries: tuple[Inquiry, ...]) -> None:
        """Take the inquiries; without room, or at the end, answer at once that they are not judged."""
        entry = _Entry(trajectory, list(map(_OpenInquiry, inquiries)), weight(trajectory))
        has_room = len(self._open) < self._max_queue and self._bytes + entry.weight <= self._max_bytes
        if self._is_closed or not has_room:
            refused = _ENDED if self._is_closed else _FULL
            self._done.append(settled(trajectory, inquiries, refused))
            return
        self._open[entry] = None
        self._bytes += entry.weight
        self._waiting.append(entry)
        self._changed.set()

    def take(self) -> list[Answers]:
        """Hand over the answers since the last time."""
        done, self._done = self._done, []
        return done

    async def start(self) -> None:
        """Begin to ask."""
        self._feeding = asyncio.create_task(self._feed())

    async def drain(self, timeout_s: float) -> None:
        """Wait until all that was put has been answered, for as long at most."""
        try:
            async with asyncio.timeout(timeout_s):
                while self._open and self._feeding is not None:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            return

    async def close(self) -> None:
        """Stop asking; open inquiries end as `incomplete`. May be called twice and without a start."""
        self._is_closed = True
        tasks = [*self._calls, *([] if self._feeding is None else [self._feeding])]
        self._feeding = None
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_CANCEL_S)
        self._waiting.clear()
        for entry in tuple(self._open):
            self._finish(entry, entry.answers())
        await self._client.close()

    async def _feed(self) -> None:
        while True:
            while not self._waiting:
                self._changed.clear()
                await self._changed.wait()
            entry = self._waiting.popleft()
            try:
                for open_inquiry in entry.inquiries:
                    await self._inquire(entry, open_inquiry)
                await self._finish_if_done(entry)
            except Exception as error:  # noqa: BLE001 (a fault in one trajectory would end judging for all)
                self._metrics.failures.add(1, (type(error).__name__,))
                if entry in self._open:
                    self._finish(entry, entry.answers())

    async def _inquire(self, entry: _Entry, open_inquiry: _OpenInquiry) -> None:
        steps = questions(open_inquiry.inquiry)
        while True:
            # Before the question is built: prompts are large, and this is what bounds them.
            await self._free.acquire()
            found: tuple[ToolCall | None, Question | Outcome] | None = None
            try:
                # On a thread: building a question about a long trajectory would block the loop.
                found = await asyncio.to_thread(next, steps, None)
            finally:
                if found is None or not isinstance(found[1], Question):
                    self._free.release()
            if found is None:
                break
            call, asked = found
            open_inquiry.calls.append(call)
            open_inquiry.outcomes.append(None if isinstance(asked, Question) else asked)
            if isinstance(asked, Question):
                place = len(open_inquiry.outcomes) - 1
                task = asyncio.create_task(self._ask(entry, open_inquiry, place, asked))
                self._calls.add(task)
                task.add_done_callback(self._over)
            elif isinstance(asked, Scored) and asked.parts.get("prechecked"):
                self._metrics.saved.add()
        open_inquiry.is_asked = True

    def _over(self, task: asyncio.Task[None]) -> None:
        self._calls.discard(task)
        self._free.release()

    async def _ask(self, entry: _Entry, open_inquiry: _OpenInquiry, place: int, question: Question) -> None:
        try:
            outcome = await self.model.ask(open_inquiry.inquiry.evaluator, question)
        except asyncio.CancelledError:
            if self._is_closed:
                raise
            # A library that cancels itself must not leave the entry open for ever.
            outcome = _CANCELLED
        open_inquiry.outcomes[place] = outcome
        await self._finish_if_done(entry)

    async def _finish_if_done(self, entry: _Entry) -> None:
        if entry in self._open and all(inquiry.is_done for inquiry in entry.inquiries):
            # On a thread: an evaluator of a plug-in may take long to join outcomes.
            answers = await asyncio.to_thread(entry.answers)
            if entry in self._open:
                self._finish(entry, answers)

    def _finish(self, entry: _Entry, answers: Answers) -> None:
        del self._open[entry]
        self._bytes -= entry.weight
        self._done.append(answers)
        self._changed.set()


def weight(trajectory: Trajectory) -> int:
    """Estimate the bytes that the texts, arguments and results of a trajectory take."""
    texts = sum(len(message.text) for message in trajectory.messages)
    values: list[Json] = []
    for call in trajectory.calls:
        for content in (call.arguments, call.result):
            if isinstance(content, Recorded):
                values.append(content.value)
            elif isinstance(content, Unparsed):
                texts += len(content.text)
    size = looked_at = 0
    while values and looked_at < _MAX_ENTRIES:
        value = values.pop()
        looked_at += 1
        size += _ENTRY_BYTES
        if isinstance(value, str):
            size += len(value)
        elif isinstance(value, list):
            values.extend(value)
        elif isinstance(value, dict):
            size += sum(map(len, value))
            values.extend(value.values())
    size += len(values) * size // max(1, looked_at)
    return texts + len(trajectory.calls) * _CALL_BYTES + size
