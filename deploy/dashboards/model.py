"""What a dashboard shows, without how Grafana or Perses write it down."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["stat", "lines", "bars", "table", "heatmap", "ranking"]
Stack: TypeAlias = Literal["none", "normal", "percent"]

COLUMNS = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """One expression of PromQL. With `exemplars` the traces behind the numbers are drawn, too."""

    expr: str
    legend: str = ""
    exemplars: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """The colour from a value on; `None` is the colour below all others."""

    value: float | None
    color: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One picture. Widths are columns of 24, heights are rows of the grid; `threshold_line` draws the thresholds."""

    kind: Kind
    title: str
    description: str
    unit: str
    queries: tuple[Query, ...]
    width: int
    height: int = 8
    minimum: float | None = None
    maximum: float | None = None
    decimals: int | None = None
    stack: Stack = "none"
    thresholds: tuple[Threshold, ...] = ()
    threshold_line: bool = False
    links_to_panel: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Panels under one title, from left to right and line by line."""

    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """A choice of the reader: the values of a label, in the series of `selector`."""

    name: str
    label: str
    of_label: str
    selector: str
    many: bool = True
    first: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotation:
    """Moments that are marked in every panel."""

    name: str
    expr: str
    title: str
    text: str
    color: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Dashboard:
    """One dashboard. `purpose` is the text at its top."""

    uid: str
    title: str
    description: str
    purpose: str
    variables: tuple[Variable, ...]
    rows: tuple[Row, ...]
    annotations: tuple[Annotation, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a panel lies in the grid."""

    x: int
    y: int
    width: int
    height: int


def placed(panels: tuple[Panel, ...], first_y: int) -> tuple[list[Place], int]:
    """Lay panels out line by line; returns their places and where the next row begins."""
    places: list[Place] = []
    x, y, line_height = 0, first_y, 0
    for panel in panels:
        if x + panel.width > COLUMNS:
            x, y, line_height = 0, y + line_height, 0
        places.append(Place(x=x, y=y, width=panel.width, height=panel.height))
        x, line_height = x + panel.width, max(line_height, panel.height)
    return places, y + line_height
