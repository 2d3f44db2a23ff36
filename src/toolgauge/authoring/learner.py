"""Trajectories in, one reviewable criteria file out."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from toolgauge.authoring.evidence import Requirements
from toolgauge.authoring.learned_criteria import learn
from toolgauge.authoring.names import is_plain, may_be_written, slug
from toolgauge.authoring.service_usage import ServiceUsage
from toolgauge.authoring.yaml_text import Commented, Written, yaml_text
from toolgauge.model.trajectory import Trajectory
from toolgauge.score.selection import CUT_SHORT, without_code

_MAX_SERVICES = 200
_PREFIX = "learned"
_HEADER = (
    "Learned from traffic by `toolgauge learn`: what was usual, not what is right. Read it, delete what should not",
    "hold, and run it with `toolgauge replay --criteria` or as one of `criteria_files` of `toolgauge serve`.",
    "A comment is the evidence for its line. A share of 1 % of runs may break a rule that is written, by default.",
)
# `toolgauge init` writes such a file: with the criteria of packs, or without any.
_NOTHING_LEARNED = (
    "Nothing is learned from traffic here: no rule has enough runs as evidence. `toolgauge learn` writes criteria from more.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a rule needs, and how many runs may fail by mistake."""

    requirements: Requirements
    most_alarms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSummary:
    """The traffic of one service and the criteria made of it."""

    service: str | None
    runs: int
    calls: int
    criteria: int
    needed: int
    alarms: int
    versions: Mapping[str, int]


class Learner:
    """Collects the runs of services."""

    def __init__(self) -> None:
        self._services: dict[str | None, ServiceUsage] = {}
        self.cut_short = 0
        self.further_services = 0

    def add(self, trajectory: Trajectory) -> None:
        """Add one run, unless it was not seen to its end: that is not what runs usually are."""
        if trajectory.closed_because in CUT_SHORT or trajectory.incomplete is not None:
            self.cut_short += 1
            return
        service = trajectory.service
        if service not in self._services:
            if len(self._services) == _MAX_SERVICES:
                self.further_services += 1
                return
            self._services[service] = ServiceUsage()
        self._services[service].add(without_code(trajectory))

    @property
    def calls(self) -> int:
        """How many calls were seen."""
        return sum(usage.calls for usage in self._services.values())

    @property
    def has_conversations(self) -> bool:
        """Whether any trace had the id of a conversation."""
        return any(usage.has_conversations for usage in self._services.values())

    def tool_names(self) -> list[str]:
        """Name the tools that were called, as far as their names may be written."""
        names = {
            name
            for usage in self._services.values()
            for name, tool in usage.tools.items()
            if tool.calls
            and not tool.is_invented
            and is_plain(name)
            and may_be_written(name, is_offered=tool.is_offered, runs=tool.all.runs)
        }
        return sorted(names)

    @property
    def runs(self) -> int:
        """How many runs were seen."""
        return self.cut_short + sum(usage.all.runs for usage in self._services.values())

    def result(self, options: Options) -> tuple[str, tuple[ServiceSummary, ...]]:
        """Return the text of the criteria file and a summary of each service."""
        entries: list[Written] = []
        summaries: list[ServiceSummary] = []
        slugs = _slugs(self._services.keys())
        for service in sorted(self._services, key=lambda name: (name is not None, name or "")):
            usage = self._services[service]
            learned = learn(
                usage,
                prefix=f"{_PREFIX}.{slugs[service]}",
                service=service,
                requirements=options.requirements,
                most_alarms=options.most_alarms,
            )
            summary = ServiceSummary(
                service=service,
                runs=usage.all.runs,
                calls=usage.calls,
                criteria=len(learned.criteria),
                needed=learned.requirements.runs,
                alarms=learned.alarms,
                versions=dict(sorted(usage.versions.items())),
            )
            summaries.append(summary)
            for place, criterion in enumerate(learned.criteria):
                entries.append(Commented(criterion, above=_head(summary) if place == 0 else ()))
        return yaml_text({"criteria": entries}, _HEADER if entries else _NOTHING_LEARNED), tuple(summaries)


def _slugs(services: Iterable[str | None]) -> Mapping[str | None, str]:
    names = sorted(name for name in services if name is not None)
    counts = Counter(map(slug, names))
    taken: defaultdict[str, int] = defaultdict(int)
    slugs: dict[str | None, str] = {None: "any-service"}
    for name in names:
        own = slug(name)
        taken[own] += 1
        slugs[name] = own if counts[own] == 1 else f"{own}-{taken[own]}"
    return slugs


def _head(summary: ServiceSummary) -> tuple[str, ...]:
    versions = ", ".join(f"{version} ({runs} runs)" for version, runs in list(summary.versions.items())[:5])
    lines = [
        f"{summary.runs} runs with {summary.calls} calls of {'a service without a name' if summary.service is None else summary.service}"
        + (f"; versions: {versions}" if versions else ""),
        f"A rule needs {summary.needed} runs. {summary.alarms} of {summary.runs} runs would fail what is learned from the others.",
    ]
    return ("", *lines)
