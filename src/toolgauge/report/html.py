"""HTML from templates. Text from spans is hostile: all of it is escaped, nothing is ever marked as safe, and invisible
characters (control characters, changes of direction, lone surrogates) are written as escapes.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from importlib.resources import files

from toolgauge import on_demand
from toolgauge.model.plain_words import reason_words
from toolgauge.otlp.encode import fit_time
from toolgauge.settings import SECOND

# Control characters but tab and line feed, invisible ones, changes of direction, lone surrogates, tags.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
# The innermost agents of a path that are shown, and the characters of each.
_MAX_DEPTH, _MAX_AGENT = 4, 60


class Templates:
    """Renders the templates of this package and of further ones. Belongs to no thread."""

    def __init__(self, *packages: str) -> None:
        self._packages = ("toolgauge.report", *packages)

    @cached_property
    def _environment(self) -> "on_demand.jinja2.Environment":
        library = on_demand.jinja2
        environment = library.Environment(
            loader=library.ChoiceLoader([library.PackageLoader(package) for package in self._packages]),
            autoescape=True,
            finalize=_finalized,
            undefined=library.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        environment.filters.update(_FILTERS)
        return environment

    def fragment(self, template: str, **values: object) -> str:
        """Render a template; `values` are the names it uses."""
        return self._environment.get_template(template).render(**values)


def _finalized(value: object) -> object:
    # Markup comes from macros, whose parts were made visible here.
    return visible(value) if isinstance(value, str) and not hasattr(value, "__html__") else value


def static_file(name: str) -> bytes:
    """Read a style sheet, a script or a picture of pages."""
    return files("toolgauge.report").joinpath("static", name).read_bytes()


def visible(text: str) -> str:
    """Escape characters that are invisible or change how others look."""
    return _UNSEEN.sub(lambda found: found[0].encode("unicode_escape", "backslashreplace").decode(), text)


def _time(form: str) -> Callable[[int], str]:
    return lambda time_ns: datetime.fromtimestamp(fit_time(time_ns) // SECOND, UTC).strftime(form)


def _short(text: str | None, length: int) -> str:
    if text is None:
        return ""
    return text if len(text) <= length else f"{text[: length - 1]}…"


def _path(agents: Sequence[str | None]) -> str:
    return " > ".join(_short(agent, _MAX_AGENT) for agent in agents[-_MAX_DEPTH:] if agent)


def duration(time_ns: int) -> str:
    """Write a duration with its unit."""
    seconds = max(0, time_ns) / SECOND
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours = minutes // 60
    if hours >= 24:
        return f"{hours // 24} d {hours % 24} h"
    return f"{hours} h {minutes % 60} min" if hours else f"{minutes} min {rest} s"


moment, iso_moment = _time("%Y-%m-%d %H:%M:%S UTC"), _time("%Y-%m-%dT%H:%M:%SZ")
_FILTERS: Mapping[str, Callable[..., str]] = {
    "clock": _time("%m-%d %H:%M:%S"),
    "moment": moment,
    "iso": iso_moment,
    "short": _short,
    "reason": reason_words,
    "score": "{:.3f}".format,
    "thousands": "{:,}".format,
    "duration": duration,
    "path": _path,
}
