"""The judge model: asks one question within every bound (time, calls a minute, money an hour, retries). Never raises.

A failure becomes an outcome that quotes neither prompts nor keys. A call reserves its highest possible cost until its cost is known.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from toolgauge.judge.inquiry import Client, Reply, Request, dialogue, outcome_of
from toolgauge.judge.settings import JudgeSettings
from toolgauge.model.errors import JudgeCallError
from toolgauge.model.json import JsonObject
from toolgauge.model.judging import JudgeEvaluator, Question
from toolgauge.model.outcomes import Errored, NotEvaluated, Outcome
from toolgauge.net.throttle import Throttle, repetitions
from toolgauge.selfmetrics import JudgeMetrics
from toolgauge.settings import SECOND

_MINUTE_S = 60.0
_HOUR_S = 3600.0
# Costs are kept by the tenth of a minute: an hour has 600 of them, however many calls there were.
_STEP_S = 6.0


class RateLimit:
    """At most `per_minute` calls in any minute; `None` sets no bound."""

    def __init__(self, per_minute: int | None) -> None:
        self._per_minute = per_minute
        self._begun: deque[float] = deque()

    def wait_s(self, now_s: float) -> float:
        """Return how long to wait for the next call; 0 takes the place."""
        if self._per_minute is None:
            return 0.0
        while self._begun and now_s - self._begun[0] >= _MINUTE_S:
            self._begun.popleft()
        if len(self._begun) < self._per_minute:
            self._begun.append(now_s)
            return 0.0
        return self._begun[0] + _MINUTE_S - now_s


class Budget:
    """At most `per_hour` in any hour, reservations included; `None` sets no bound."""

    def __init__(self, per_hour: float | None) -> None:
        self._per_hour = per_hour
        self._reserved = 0.0
        self._spent = 0.0
        self._steps: deque[tuple[float, float]] = deque()

    def reserve(self, cost: float, now_s: float) -> bool:
        """Reserve the highest possible cost of a call; False when the budget does not allow it."""
        if self._per_hour is None:
            return True
        while self._steps and now_s - self._steps[0][0] >= _HOUR_S + _STEP_S:
            self._steps.popleft()
        # Summed again: the rounding of years of additions would not be forgotten otherwise.
        self._spent = sum(cost for _, cost in self._steps)
        if self._spent + self._reserved + cost > self._per_hour:
            return False
        self._reserved += cost
        return True

    def charge(self, reserved: float, cost: float, now_s: float) -> None:
        """Replace the reservation of a call by its actual cost."""
        if self._per_hour is None:
            return
        self._reserved = max(0.0, self._reserved - reserved)
        if cost <= 0:
            return
        self._spent += cost
        step = now_s - now_s % _STEP_S
        if self._steps and self._steps[-1][0] == step:
            cost += self._steps.pop()[1]
        self._steps.append((step, cost))


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
    """Asks questions, any number at a time. `redact` masks what leaves; `clock` never goes back, in seconds."""

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
