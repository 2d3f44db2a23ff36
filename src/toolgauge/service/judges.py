"""Config -> the judges, and what is wrong when a criterion needs one that cannot be had."""

import time
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from typing import Protocol, cast

from toolgauge import plugins
from toolgauge.config.criteria import CriterionConfig, criterion_problem
from toolgauge.config.model import Config
from toolgauge.config.problems import Problem, config_error
from toolgauge.judge.client import Client
from toolgauge.judge.client_thread import ClientThread
from toolgauge.judge.judge_model import JudgeModel
from toolgauge.judge.judges import Judges
from toolgauge.judge.settings import JudgeSettings
from toolgauge.model.judging import JudgeEvaluator
from toolgauge.score.criterion import Criterion
from toolgauge.selfmetrics import JudgeMetrics

# What the client of `toolgauge.judges` stands on; the extra brings both.
_EXTRA = ("pydantic_ai", "openai")
_CLIENT = "pydantic_ai"


class OpenClient(Protocol):
    """Makes a client; the entry points of `toolgauge.judges` are of this type."""

    def __call__(
        self,
        *,
        model: str,
        base_url: str | None,
        api_key: str | None,
        max_output_tokens: int,
        temperature: float | None,
    ) -> Client:
        """Raise `ConfigError` when there is no such model."""
        ...


def asks_judge(criteria: Sequence[Criterion]) -> bool:
    """Tell whether any criterion asks a judge."""
    return any(isinstance(criterion.evaluator, JudgeEvaluator) for criterion in criteria)


def require_judge(config: Config, written: Sequence[CriterionConfig], criteria: Sequence[Criterion]) -> None:
    """Raise `ConfigError` when a criterion asks a judge and there is none to ask."""
    problems = tuple(_problems(config, written, criteria))
    if problems:
        raise config_error(problems)
    if config.judge is not None and asks_judge(criteria):
        open_client(config.judge)


def _problems(config: Config, written: Sequence[CriterionConfig], criteria: Sequence[Criterion]) -> Iterator[Problem]:
    asking = {criterion.name for criterion in criteria if isinstance(criterion.evaluator, JudgeEvaluator)}
    for entry in written:
        if entry.name not in asking:
            continue
        who = f"evaluator `{entry.evaluator}` in criterion `{entry.name}` asks a judge model, and"
        if config.judge is None:
            message = f"{who} `judge` is not configured"
            yield criterion_problem(entry, message, 'such as `judge: {model: "openai:gpt-5-mini"}`', at=("evaluator",))
        elif any(find_spec(name) is None for name in _EXTRA):
            message = f"{who} the extra `toolgauge[judge]` is not installed"
            yield criterion_problem(entry, message, "`pip install 'toolgauge[judge]'`", at=("evaluator",))


def open_client(settings: JudgeSettings) -> Client:
    """Make the client; raise `ConfigError` when there is no such model."""
    # An entry point's value: what is not of this type is told by the first call.
    opener = cast("OpenClient", plugins.load(plugins.JUDGES, _CLIENT))
    return opener(
        model=settings.model,
        base_url=settings.base_url,
        api_key=settings.api_key,
        max_output_tokens=settings.max_output_tokens,
        temperature=settings.temperature,
    )


def make_judges(settings: JudgeSettings, client: Client, metrics: JudgeMetrics, redact: Callable[[str], str]) -> Judges:
    """Put the stage together."""
    client = ClientThread(client)
    asker = JudgeModel(client, settings, metrics, redact=redact, clock=time.monotonic)
    return Judges(client, asker, settings, metrics)
