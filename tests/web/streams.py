"""Pages of streams over a watcher that is asked as the worker would be, without a service."""

import asyncio
from collections.abc import Callable, Mapping
from html.parser import HTMLParser
from typing import TypeVar

from tests.watch.support import Traffic
from toolgauge.export.redact import Redactor
from toolgauge.model.metrics import MetricRegistry
from toolgauge.report.html import Templates
from toolgauge.service.health import Health
from toolgauge.service.watching import Watching
from toolgauge.watch.watcher import Watcher
from toolgauge.web.pages import PageContent, PageRequest, Running, Writing
from toolgauge.web.trajectory_store import TrajectoryStore

TEMPLATES = Templates("toolgauge.web")
_T = TypeVar("_T")


class AskedWatcher(Watching):
    """A watcher that answers on the event loop."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher

    async def ask(self, question: Callable[[Watcher], _T]) -> _T:
        return question(self._watcher)


def shown(
    watcher: Watcher | None, *, trace_url: str | None = None, registry: MetricRegistry | None = None
) -> PageContent:
    """Make what pages are made of; belongs to the running event loop."""
    health = Health(clock=lambda: 0, components=dict)
    health.enter("running")
    running = Running(
        health=health,
        registry=registry or MetricRegistry(),
        watching=None if watcher is None else AskedWatcher(watcher),
        clock=lambda: 0,
        loop=asyncio.get_running_loop(),
    )
    writing = Writing(redactor=Redactor(show_values=False), trace_url=trace_url)
    return PageContent(TrajectoryStore(100, 1 << 20), writing, running, templates=TEMPLATES)


async def page(
    show: Callable[[PageContent, PageRequest], str | None],
    over: PageContent,
    *path: str,
    query: Mapping[str, str] | None = None,
) -> str | None:
    """Render a page in a thread, as the endpoint does."""
    asked = PageRequest(path=path, query={name: (value,) for name, value in (query or {}).items()})
    return await asyncio.to_thread(show, over, asked)


_APART = ("td", "th", "br", "li", "dt", "dd", "p", "option")


class Parsed(HTMLParser):
    """What a browser makes of a page: its elements, their attributes, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag in _APART:
            self.text += " "

    def handle_data(self, data: str) -> None:
        self.text += data

    def count(self, tag: str, **attributes: str) -> int:
        """Count the elements of this name and with these attributes; `class_` is one of several classes."""
        return sum(1 for name, found in self.elements if name == tag and _has(found, attributes))

    @property
    def words(self) -> str:
        """The text with single spaces."""
        return " ".join(self.text.split())


def _has(found: Mapping[str, str | None], wanted: Mapping[str, str]) -> bool:
    return all(
        value in (found.get("class") or "").split() if name == "class_" else found.get(name) == value
        for name, value in wanted.items()
    )


def worse_release(watcher: Watcher) -> Traffic:
    """Watch a service whose second version fails every other call."""
    traffic = Traffic(watcher)
    traffic.send(300, every=20)
    traffic.send(60, every=2, version="1.1")
    return traffic
