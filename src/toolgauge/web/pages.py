"""The parts of every page: the request, the templates, the latest trajectories, and the running service.

Pages are plain functions of these, which run in threads. The event loop answers for the worker's state, with a deadline.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Literal, TypeAlias, TypeVar

from msgspec import Struct

from toolgauge.authoring.separation import Separation
from toolgauge.export.redact import Redactor
from toolgauge.export.run_usage import CostSettings
from toolgauge.export.settings import MetricsSettings
from toolgauge.model.errors import ToolgaugeError
from toolgauge.model.metrics import MAX_LABEL, MetricRegistry, fit_label
from toolgauge.report.catalogue import Catalogue
from toolgauge.report.html import Templates
from toolgauge.service.health import ComponentHealth, Health
from toolgauge.service.watching import Watching
from toolgauge.watch.watcher import Watcher
from toolgauge.web.trajectory_store import TrajectoryStore
from toolgauge.web.verdict_store import RunVerdicts

Section: TypeAlias = Literal["overview", "streams", "trajectories", "verdicts", "agents", "gaps", "health"]
_NAVIGATION: tuple[tuple[Section, str, str], ...] = (
    ("overview", "/", "Overview"),
    ("streams", "/streams", "Streams"),
    ("trajectories", "/trajectories", "Trajectories"),
    ("verdicts", "/verdicts", "Verdicts"),
    ("agents", "/agents", "Agents"),
    ("gaps", "/not-evaluated", "Not evaluated"),
    ("health", "/health", "Health"),
)
_T = TypeVar("_T")
_ANSWER_TIMEOUT_S = 5.0


class PageRequest(Struct, frozen=True, kw_only=True):
    """A request of a page: the parts of the path, without its slashes, and the values of the query by name."""

    path: tuple[str, ...] = ()
    query: Mapping[str, tuple[str, ...]] = {}

    def value(self, name: str) -> str:
        """Return the first value of this name that is not empty, else an empty text."""
        return next((value for value in self.query.get(name, ()) if value), "")


# Returns HTML, JSON for a route that ends so, or `None` for an unknown page. Runs in a thread, may raise `BusyError`.
Page: TypeAlias = Callable[[PageRequest], str | None]


# The fields of a form that is posted.
Form: TypeAlias = Mapping[str, str]
# Does what a form asks for, on the event loop, and returns the path of the page to show then. May raise `FormError`.
Action: TypeAlias = Callable[[Form], Awaitable[str]]


class BusyError(ToolgaugeError):
    """The worker did not answer in time; the page is answered with status 503."""


class FormError(ToolgaugeError):
    """Nothing was changed: the form is answered with this status."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """The running service. `watching` is `None` without `watch.enabled`, `ports` are for OTLP over gRPC and HTTP."""

    health: Health
    registry: MetricRegistry
    watching: Watching | None
    clock: Callable[[], int]
    loop: asyncio.AbstractEventLoop
    ports: Callable[[], Sequence[int]] = tuple

    def ask(self, question: Callable[[Watcher], Sequence[_T]]) -> Sequence[_T]:
        """Ask the detectors from the thread of a page; a starting service has none. May raise `BusyError`."""
        watching = self.watching
        if watching is None or self.health.phase == "starting":
            return ()
        return self._answered(watching.ask(question))

    def components(self) -> Mapping[str, ComponentHealth]:
        """Return the health of each part by its name; none while the process starts or stops. May raise `BusyError`."""

        async def health() -> Mapping[str, ComponentHealth]:
            return dict(self.health.components()) if self.health.is_ready else {}

        # Destinations measure their outages by the clock of the event loop.
        return self._answered(health())

    def _answered(self, question: Coroutine[object, object, _T]) -> _T:
        try:
            return asyncio.run_coroutine_threadsafe(asyncio.wait_for(question, _ANSWER_TIMEOUT_S), self.loop).result()
        except TimeoutError as error:
            raise BusyError("the worker is busy and did not answer in time: try again") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Writing:
    """How pages write spans. `trace_url` is a template with `{trace_id}`; `pass_at` is as in `shown_verdict`."""

    redactor: Redactor
    trace_url: str | None
    pass_at: Mapping[str, float] = field(default_factory=dict[str, float])


class Compared(Struct, frozen=True, kw_only=True):
    """What separates runs, as of so many changes of verdicts; `pages` are the ids of their pages by trace."""

    changes: int
    separation: Separation
    are_marked: bool
    pages: Mapping[str, str]


@dataclass(slots=True)
class PageContent:
    """The content of pages. `writing` is exchanged at a reload; `running` is `None` before the start of the service.

    `state` is the directory of adopted criteria; `compared` are the differences of marked runs.
    """

    store: TrajectoryStore
    writing: Writing
    running: Running | None = None
    verdicts: RunVerdicts = field(default_factory=RunVerdicts)
    state: Path | None = None
    compared: Compared | None = None
    catalogue: Catalogue = field(default_factory=lambda: Catalogue(MetricsSettings(), CostSettings()))
    templates: Templates = field(default_factory=lambda: Templates("toolgauge.web"))

    def page(self, template: str, *, section: Section, title: str, **values: object) -> str:
        """Render a page; `values` are the names its template uses."""
        return self.templates.fragment(template, navigation=_NAVIGATION, section=section, title=title, **values)


def agent_id(service: str | None, environment: str | None, agent: str | None) -> str:
    """Return an id that is safe in a URL, and the same after a restart."""
    names = [fit_label((name or "")[:MAX_LABEL]) for name in (service, environment, agent)]
    return blake2b(repr(names).encode(), digest_size=8).hexdigest()
