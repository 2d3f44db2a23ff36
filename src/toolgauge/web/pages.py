"""HTML from templates. Text from spans is hostile: all of it is escaped, as nothing is ever marked as safe, and characters
that act instead of being seen (control characters, changes of direction, halves of a character) are written as escapes.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.resources import files
from typing import Literal, Protocol, TypeAlias

from jinja2 import Environment, PackageLoader, StrictUndefined
from msgspec import Struct

from toolgauge.otlp.encode import fit_time

Section: TypeAlias = Literal["overview", "streams", "trajectories", "gaps", "health"]
NAVIGATION: tuple[tuple[Section, str, str], ...] = (
    ("overview", "/", "Overview"),
    ("streams", "/streams", "Streams"),
    ("trajectories", "/trajectories", "Trajectories"),
    ("gaps", "/not-evaluated", "Not evaluated"),
    ("health", "/health", "Health"),
)
# Control characters but tab and line feed, invisible ones, changes of direction, lone surrogates, tags.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
_NS_PER_S = 1_000_000_000
_MINUTE_S = 60
# Of a path of agents, so many innermost ones with so many characters each.
_MAX_DEPTH, _MAX_AGENT = 4, 60


class PageRequest(Struct, frozen=True, kw_only=True):
    """A request of a page: the parts of the path, without its slashes, and the values of the query by name."""

    path: tuple[str, ...] = ()
    query: Mapping[str, tuple[str, ...]] = {}

    def value(self, name: str) -> str:
        """Return the first value of this name that is not empty, else an empty text."""
        return next((value for value in self.query.get(name, ()) if value), "")


# Returns HTML, or `None` where there is no such page. Runs in a thread, may raise `BusyError`.
Page: TypeAlias = Callable[[PageRequest], str | None]


class PageGroup(Protocol):
    """Pages that belong together."""

    def routes(self) -> Mapping[str, Page]:
        """Return pages by the first part of their path: that of `/trajectories` is asked for `/trajectories/1`, too."""
        ...


class Pages:
    """Renders templates. Belongs to no thread."""

    def __init__(self) -> None:
        self._environment = Environment(
            loader=PackageLoader("toolgauge.web"),
            autoescape=True,
            finalize=_finalized,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters.update(_FILTERS)

    def page(self, template: str, *, section: Section, title: str, **values: object) -> str:
        """Render a whole page; `values` are what its template names."""
        return self.fragment(template, navigation=NAVIGATION, section=section, title=title, **values)

    def fragment(self, template: str, **values: object) -> str:
        """Render any template; `values` are what it names."""
        return self._environment.get_template(template).render(**values)


def static_file(name: str) -> bytes:
    """Read a file that pages refer to."""
    return files("toolgauge.web").joinpath("static", name).read_bytes()


def reason_text(reason: str) -> str:
    """Write a word of a closed list for people."""
    return reason.replace("_", " ")


def visible(text: str) -> str:
    """Write characters that are not seen, or change how others are seen, as escapes."""
    return _UNSEEN.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape", "backslashreplace").decode()


def _finalized(value: object) -> object:
    """Prepare what a template writes; markup, which macros return, is made of parts that came through here."""
    return visible(value) if isinstance(value, str) and not hasattr(value, "__html__") else value


def _time(time_ns: int) -> datetime:
    return datetime.fromtimestamp(fit_time(time_ns) // _NS_PER_S, UTC)


def _clock(time_ns: int) -> str:
    return _time(time_ns).strftime("%m-%d %H:%M:%S")


def _moment(time_ns: int) -> str:
    return _time(time_ns).strftime("%Y-%m-%d %H:%M:%S UTC")


def _iso(time_ns: int) -> str:
    return _time(time_ns).strftime("%Y-%m-%dT%H:%M:%SZ")


def _short(text: str | None, length: int) -> str:
    if text is None:
        return ""
    return text if len(text) <= length else f"{text[: length - 1]}…"


def _path(agents: Sequence[str | None]) -> str:
    return " > ".join(_short(agent, _MAX_AGENT) for agent in agents[-_MAX_DEPTH:] if agent)


def _duration(time_ns: int) -> str:
    seconds = max(0, time_ns) / _NS_PER_S
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < _MINUTE_S:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), _MINUTE_S)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min {rest} s"


_FILTERS: Mapping[str, Callable[..., str]] = {
    "clock": _clock,
    "moment": _moment,
    "iso": _iso,
    "short": _short,
    "reason": reason_text,
    "score": "{:.3f}".format,
    "thousands": "{:,}".format,
    "duration": _duration,
    "path": _path,
}
