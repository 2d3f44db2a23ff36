"""From the scores of a stream to the geometry of its chart: points, lines and labels, in the units of an SVG's `viewBox`.

Pure figures: templates write them as attributes, and style sheets give them colours, so that a chart needs no script.
"""

import math
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Literal, TypeAlias

from msgspec import Struct

from toolgauge.model.records import VERSION
from toolgauge.model.regressions import ScoreBucket, StreamHistory
from toolgauge.settings import HOUR, MINUTE, SECOND
from toolgauge.watch.detector import interval

# What a label of the time axis shows.
TimeForm: TypeAlias = Literal["second", "minute", "day"]

# When a property or tool changed, its name, and its new value or how it changed.
Changes: TypeAlias = Sequence[tuple[int, str, str]]

_DAY = 24 * HOUR
_STEPS = (
    *(count * SECOND for count in (1, 2, 5, 10, 15, 30)),
    *(count * MINUTE for count in (1, 2, 5, 10, 15, 30)),
    *(count * HOUR for count in (1, 2, 3, 6, 12)),
    *(count * _DAY for count in (1, 2, 7, 14, 28, 91, 364)),
)
_FORMATS: dict[TimeForm, str] = {"second": "%H:%M:%S", "minute": "%H:%M", "day": "%b %d"}
_SCORE_STEPS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.5)
# So many scores make a mean that is worth a point.
_A_POINT = 12
_LEAST_RANGE = 0.1
_VERSION_LENGTH = 14
# A line over a longer part of the chart without observations would invent scores.
_GAP = 0.2


class Bin(Struct, frozen=True, kw_only=True, gc=False):
    """Neighbouring observations that are one point: their mean and its 95 % interval."""

    start_ns: int
    end_ns: int
    observations: int
    mean: float
    low: float
    high: float


class Point(Struct, frozen=True, kw_only=True, gc=False):
    """One bin on the chart: where its mean is, and where its interval begins and ends."""

    x: float
    y: float
    low: float
    high: float
    radius: float
    bin: Bin


class Tick(Struct, frozen=True, kw_only=True, gc=False):
    """One label of an axis; `time_ns` is 0 on that of the scores."""

    at: float
    label: str
    form: TimeForm = "minute"
    time_ns: int = 0


class VersionMark(Struct, frozen=True, kw_only=True, gc=False):
    """The first sight of a version, or another change; `label` is cut, `row` keeps labels apart that are near to each other."""

    x: float
    label: str
    version: str
    seen_ns: int
    row: int
    is_left: bool


class Size(Struct, frozen=True, kw_only=True, gc=False):
    """The size of a chart, the most points and labels of times, and the room around its plot."""

    name: Literal["wide", "narrow", "spark"]
    width: int
    height: int
    bins: int
    ticks: int
    left: int = 44
    right: int = 12
    top: int = 40
    bottom: int = 28


class Chart(Struct, frozen=True, kw_only=True, gc=False):
    """All parts of a drawing. `lines` are the `points` of polylines, `bands` of the polygons of intervals.

    `alarms` are the place and the width of each alarm.
    """

    size: Size
    points: tuple[Point, ...]
    lines: tuple[str, ...]
    bands: tuple[str, ...]
    alarms: tuple[tuple[float, float], ...]
    versions: tuple[VersionMark, ...]
    score_ticks: tuple[Tick, ...]
    time_ticks: tuple[Tick, ...]
    baseline_y: float | None


WIDE = Size(name="wide", width=1200, height=320, bins=60, ticks=10)
NARROW = Size(name="narrow", width=360, height=260, bins=30, ticks=4)
SPARK = Size(name="spark", width=120, height=28, bins=24, ticks=0, left=3, right=3, top=3, bottom=3)


def binned(buckets: Sequence[ScoreBucket], start_ns: int, end_ns: int, most: int) -> tuple[Bin, ...]:
    """Put the buckets of a time into at most so many bins of one length, fewer where there are few observations."""
    chosen = [bucket for bucket in buckets if start_ns <= bucket.end_ns and bucket.start_ns <= end_ns]
    observations = sum(bucket.observations for bucket in chosen)
    count = min(max(observations // _A_POINT, 12), most)
    length = max((end_ns - start_ns) / count, 1)
    groups: dict[int, list[ScoreBucket]] = {}
    for bucket in chosen:
        middle = (bucket.start_ns + bucket.end_ns) / 2
        groups.setdefault(min(max(int((middle - start_ns) / length), 0), count - 1), []).append(bucket)
    bins: list[Bin] = []
    for group in groups.values():
        of = sum(bucket.observations for bucket in group)
        mean = min(max(sum(bucket.sum for bucket in group) / of, 0.0), 1.0)
        low, high = interval(mean, of)
        first_ns, last_ns = group[0].start_ns, group[-1].end_ns
        bins.append(Bin(start_ns=first_ns, end_ns=last_ns, observations=of, mean=mean, low=low, high=high))
    return tuple(bins)


class _Scale:
    """From times and scores to places on the chart."""

    def __init__(self, size: Size, start_ns: int, end_ns: int, low: float, high: float) -> None:
        self._size = size
        self._width, self._height = size.width - size.left - size.right, size.height - size.top - size.bottom
        self.start_ns, self.end_ns = start_ns, max(end_ns, start_ns + SECOND)
        self._low, self._high = low, high

    def x(self, time_ns: float) -> float:
        part = (time_ns - self.start_ns) / (self.end_ns - self.start_ns)
        return round(self._size.left + min(max(part, 0.0), 1.0) * self._width, 1)

    def y(self, score: float) -> float:
        part = (score - self._low) / (self._high - self._low)
        return round(self._size.top + (1 - min(max(part, 0.0), 1.0)) * self._height, 1)

    def points(self, bins: Sequence[Bin]) -> tuple[Point, ...]:
        most = max((each.observations for each in bins), default=1)
        return tuple(
            Point(
                x=self.x((each.start_ns + each.end_ns) / 2),
                y=self.y(each.mean),
                low=self.y(each.low),
                high=self.y(each.high),
                radius=round(1.5 + 2.5 * math.sqrt(each.observations / most), 1),
                bin=each,
            )
            for each in bins
        )


def draw(history: StreamHistory, size: Size, start_ns: int, end_ns: int, changes: Changes = ()) -> Chart:
    """Draw the scores of a stream between two moments, with changes of its agent and tools."""
    bins = binned(history.buckets, start_ns, end_ns, size.bins)
    baseline = history.status.baseline
    # The axis of scores: its ends, and the step between its labels.
    shown = [*(each.mean for each in bins), *(() if baseline is None else (baseline,))] or [0.0, 1.0]
    margin = max((max(shown) - min(shown)) * 0.25, _LEAST_RANGE / 2)
    low, high = max(min(shown) - margin, 0.0), min(max(shown) + margin, 1.0)
    step = next((step for step in _SCORE_STEPS if (high - low) / step <= 5), _SCORE_STEPS[-1])
    # Rounded first: 0.3 / 0.1 is a little less than 3.
    low, high = math.floor(round(low / step, 6)) * step, min(math.ceil(round(high / step, 6)) * step, 1.0)
    decimals = 2 if step in (0.01, 0.02, 0.05, 0.25) else 1
    scores = [min(low + number * step, 1.0) for number in range(round((high - low) / step) + 1)]
    scale = _Scale(size, start_ns, end_ns, low, high)
    points = scale.points(bins)
    # One line joins the points of a run.
    runs: list[list[Point]] = []
    for point in points:
        if not runs or point.x - runs[-1][-1].x > _GAP * (size.width - size.left - size.right):
            runs.append([])
        runs[-1].append(point)
    alarms: list[tuple[float, float]] = []
    active = () if history.alarm is None else ((history.alarm.onset_ns, scale.end_ns),)
    for onset_ns, ended_ns in (*((past.onset_ns, past.ended_ns) for past in history.past), *active):
        if ended_ns >= scale.start_ns and onset_ns <= scale.end_ns:
            x = scale.x(onset_ns)
            # Even the shortest alarm is visible.
            alarms.append((x, round(max(scale.x(ended_ns) - x, 2), 1)))
    return Chart(
        size=size,
        points=points,
        lines=tuple(" ".join(f"{each.x},{each.y}" for each in run) for run in runs),
        bands=tuple(
            " ".join([f"{each.x},{each.high}" for each in run] + [f"{each.x},{each.low}" for each in reversed(run)])
            for run in runs
        ),
        alarms=tuple(alarms),
        versions=tuple(_versions(history, scale, size, changes)),
        score_ticks=tuple(Tick(at=scale.y(score), label=f"{score:.{decimals}f}") for score in scores),
        time_ticks=tuple(_time_ticks(scale, size.ticks)),
        baseline_y=None if baseline is None else scale.y(baseline),
    )


def _time_ticks(scale: _Scale, most: int) -> Iterator[Tick]:
    lasts_ns = scale.end_ns - scale.start_ns
    step = next((step for step in _STEPS if lasts_ns / step <= most), lasts_ns)
    form: TimeForm = "second" if step < MINUTE else "minute" if step < _DAY else "day"
    first = -(-scale.start_ns // step) * step
    for number in range(lasts_ns // step + 1):
        time_ns = first + number * step
        if time_ns > scale.end_ns:
            return
        # A day begins with its name.
        shown: TimeForm = "day" if form == "minute" and time_ns % _DAY == 0 else form
        label = datetime.fromtimestamp(time_ns // SECOND, UTC).strftime(_FORMATS[shown])
        yield Tick(at=scale.x(time_ns), label=label, form=shown, time_ns=time_ns)


def _versions(history: StreamHistory, scale: _Scale, size: Size, more: Changes) -> Iterator[VersionMark]:
    """Mark where versions, causes of the alarm and other changes came, except at the beginning."""
    # Buckets have whole seconds.
    begun_ns = history.buckets[0].end_ns + SECOND if history.buckets else 0
    free_from = [-math.inf, -math.inf]
    marks = [(arm.first_seen_ns, arm.version, arm.version) for arm in history.arms if arm.version]
    causes = () if history.alarm is None else history.alarm.causes
    changes = [(cause.since_ns, change) for cause in causes if cause.since_ns for change in cause.changes]
    marks += [(since_ns, change.after, change.after) for since_ns, change in changes if change.property != VERSION]
    known = {value for _, value, _ in marks}
    marks += [
        (at_ns, value, f"{name} {value}") for at_ns, name, value in more if name != VERSION and value not in known
    ]
    for seen_ns, value, version in sorted(marks):
        if not max(begun_ns, scale.start_ns) <= seen_ns <= scale.end_ns:
            continue
        label = value if len(value) <= _VERSION_LENGTH else f"{value[: _VERSION_LENGTH - 1]}…"
        x = scale.x(seen_ns)
        length = 8 * len(label) + 12
        is_left = x + length > size.width
        begins = x - length if is_left else x
        row = 0 if begins >= free_from[0] else 1
        free_from[row] = begins + length
        yield VersionMark(x=x, label=label, version=version, seen_ns=seen_ns, row=row, is_left=is_left)
