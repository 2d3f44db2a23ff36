"""HTML from templates: everything that comes from spans is escaped, because nothing is ever marked as safe."""

from datetime import UTC, datetime
from importlib.resources import files
from typing import Literal, TypeAlias

from jinja2 import Environment, PackageLoader, StrictUndefined

Section: TypeAlias = Literal["overview", "streams", "trajectories", "gaps", "health"]
NAVIGATION: tuple[tuple[Section, str, str], ...] = (
    ("overview", "/", "Overview"),
    ("streams", "/streams", "Streams"),
    ("trajectories", "/trajectories", "Trajectories"),
    ("gaps", "/not-evaluated", "Not evaluated"),
    ("health", "/health", "Health"),
)


class Pages:
    """Renders templates. Belongs to no thread."""

    def __init__(self) -> None:
        self._environment = Environment(
            loader=PackageLoader("toolgauge.web"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters["clock"] = _clock
        self._environment.filters["moment"] = _moment

    def page(self, template: str, *, section: Section, title: str, **values: object) -> str:
        """Render a whole page; `values` are what its template names."""
        found = self._environment.get_template(template)
        return found.render(navigation=NAVIGATION, section=section, title=title, **values)


def static_file(name: str) -> bytes:
    """Read a file that pages refer to."""
    return files("toolgauge.web").joinpath("static", name).read_bytes()


def _clock(time_ns: int) -> str:
    return datetime.fromtimestamp(time_ns / 1e9, UTC).strftime("%H:%M:%S")


def _moment(time_ns: int) -> str:
    return datetime.fromtimestamp(time_ns / 1e9, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
