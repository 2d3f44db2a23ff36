"""Config -> the judges, and the pool that stays while they change.

The worker puts inquiries in and takes answers out; the judges are tasks of the event loop.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec

from toolgauge import plugins
from toolgauge.config.criteria import CriterionConfig, criterion_problem
from toolgauge.config.model import Config
from toolgauge.config.problems import Problem
from toolgauge.judge.inquiry import Client, DisabledJudges, VerdictForm
from toolgauge.judge.judges import ClientThread, JudgeModel, Judges
from toolgauge.judge.settings import JudgeSettings
from toolgauge.model.judging import Answers, Inquiry, JudgeEvaluator
from toolgauge.model.trajectory import Trajectory
from toolgauge.score.criterion import Criterion
from toolgauge.selfmetrics import JudgeMetrics
from toolgauge.service.process import cancelled

# The packages of the client of `toolgauge.judges`; the extra brings both.
_EXTRA = ("pydantic_ai", "openai")
_CLIENT = "pydantic_ai"


def asks_judge(criteria: Sequence[Criterion]) -> bool:
    """Return whether any criterion asks a judge."""
    return any(isinstance(criterion.evaluator, JudgeEvaluator) for criterion in criteria)


def judge_problems(
    config: Config, written: Sequence[CriterionConfig], criteria: Sequence[Criterion]
) -> Iterator[Problem]:
    """Yield the criteria that ask a judge where none is configured or installed."""
    asking = {
        (criterion.name, criterion.evaluator_name)
        for criterion in criteria
        if isinstance(criterion.evaluator, JudgeEvaluator)
    }
    for entry in written:
        if (entry.name, entry.evaluator) not in asking:
            continue
        who = f"evaluator `{entry.evaluator}` in criterion `{entry.name}` asks a judge model, and"
        if config.judge is None:
            message = f"{who} `judge` is not configured"
            yield criterion_problem(entry, message, 'such as `judge: {model: "openai:gpt-5-mini"}`', at=("evaluator",))
        elif any(find_spec(name) is None for name in _EXTRA):
            message = f"{who} the extra `toolgauge[judge]` is not installed"
            yield criterion_problem(entry, message, plugins.install_hint("judge"), at=("evaluator",))


def open_client(settings: JudgeSettings) -> Client:
    """Make the client; raise `ConfigError` when its model does not exist."""
    opener: Callable[..., Client] = plugins.load(plugins.JUDGES, _CLIENT)
    # Here, where nothing waits for it: the first question comes on the event loop.
    VerdictForm({})
    return opener(
        model=settings.model,
        base_url=settings.base_url,
        api_key=settings.api_key,
        max_output_tokens=settings.max_output_tokens,
        temperature=settings.temperature,
        output=settings.output,
    )


def make_judges(settings: JudgeSettings, client: Client, metrics: JudgeMetrics, redact: Callable[[str], str]) -> Judges:
    """Put the stage together."""
    client = ClientThread(client)
    asker = JudgeModel(client, settings, metrics, redact=redact, clock=time.monotonic)
    return Judges(client, asker, settings, metrics)


_HANDOVER_S = 300.0  # How long leaving judges may take for their open questions


class JudgePool:
    """Implements `model.judging.Judging` with the judges that sit; `None` while no criterion asks for any."""

    def __init__(self, judges: Judges | None, metrics: JudgeMetrics) -> None:
        self._judges = judges
        self._disabled = DisabledJudges("no judge is configured")
        self._leaving: dict[Judges, asyncio.Task[None]] = {}
        self._answered: deque[Answers] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        metrics.queue.observe = lambda: {(): sum(judges.open_count for judges in self._all())}
        metrics.in_flight.observe = lambda: {(): sum(judges.in_flight for judges in self._all())}

    @property
    def has_judges(self) -> bool:
        """Return whether there are judges."""
        return self._judges is not None

    @property
    def trouble(self) -> tuple[str, float] | None:
        """How the last call failed, and for how many seconds no call has been answered."""
        return None if self._judges is None else self._judges.model.trouble

    def put(self, trajectory: Trajectory, inquiries: tuple[Inquiry, ...]) -> None:
        """Take the inquiries about one trajectory; from any thread."""
        if self._loop is None:
            self._put(trajectory, inquiries)
        else:
            self._loop.call_soon_threadsafe(self._put, trajectory, inquiries)

    def take(self) -> list[Answers]:
        """Hand over the answers of the last `collect`; from any thread."""
        return [self._answered.popleft() for _ in range(len(self._answered))]

    def collect(self) -> None:
        """Gather the answers of all judges since the last time."""
        self._answered.extend(self._disabled.take())
        for judges in self._all():
            self._answered.extend(judges.take())

    def _put(self, trajectory: Trajectory, inquiries: tuple[Inquiry, ...]) -> None:
        (self._judges or self._disabled).put(trajectory, inquiries)

    async def start(self) -> None:
        """Begin to ask."""
        self._loop = asyncio.get_running_loop()
        if self._judges is not None:
            await self._judges.start()

    async def replace(self, judges: Judges | None) -> None:
        """Ask others from here on."""
        if judges is not None:
            await judges.start()
        gone, self._judges = self._judges, judges
        if gone is None:
            return

        async def retire() -> None:
            await gone.drain(_HANDOVER_S)
            await gone.close()
            self._answered.extend(gone.take())
            del self._leaving[gone]

        self._leaving[gone] = asyncio.create_task(retire())

    async def drain(self, timeout_s: float) -> None:
        """Wait until all that was put has been answered, for as long at most."""
        # What the worker has just put is taken first.
        await asyncio.sleep(0)
        await asyncio.gather(*(judges.drain(timeout_s) for judges in self._all()))
        self.collect()

    async def close(self) -> None:
        """Stop asking; open inquiries end as `incomplete`. May be called twice and without a start."""
        await cancelled(*self._leaving.values())
        await asyncio.gather(*(judges.close() for judges in self._all()))
        self.collect()

    def _all(self) -> Iterator[Judges]:
        if self._judges is not None:
            yield self._judges
        yield from self._leaving
