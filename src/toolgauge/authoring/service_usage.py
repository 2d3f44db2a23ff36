"""Counts over the runs of one service: its tools, agents and figures."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

from toolgauge.authoring.evidence import Evidence, Largest
from toolgauge.authoring.receipt_usage import ReceiptUsage
from toolgauge.authoring.tool_usage import ToolUsage, identifying_values, scores, trails
from toolgauge.authoring.value_profiles import Quantiles
from toolgauge.evaluators.run_checks import Budget
from toolgauge.model.records import VERSION
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.score.criterion import agent_of

_MAX_TOOLS, _MAX_NAMES = 300, 100
# With limits of 0 its parts are the figures themselves.
_MEASURE = Budget.model_validate({"calls": 0, "errors": 0, "duration": "0s", "tokens": 0})
FIGURES: Mapping[str, str] = {"calls": "calls", "errors": "errors", "duration": "seconds", "tokens": "tokens"}


class Figure:
    """A figure over many runs."""

    def __init__(self) -> None:
        self.quantiles = Quantiles()
        self.largest = Largest()

    def add(self, run: int, figure: float) -> None:
        """Add the figure of a run."""
        self.quantiles.add(figure)
        self.largest.add(run, figure)


class ServiceUsage:
    """Counts over the runs of a service."""

    def __init__(self) -> None:
        self.all = Evidence()
        self.calls = 0
        self.has_conversations = False
        self.versions: Counter[str] = Counter()
        self.agents: Counter[str] = Counter()
        self.tools: dict[str, ToolUsage] = {}
        # The runs in which a tool was called, of all.
        self.called: dict[str, Evidence] = {}
        self.figures: dict[str, Figure] = {name: Figure() for name in FIGURES}
        self.calls_of: defaultdict[str, Figure] = defaultdict(Figure)
        self.receipts = ReceiptUsage()

    def add(self, trajectory: Trajectory) -> None:
        """Add one run."""
        run = self.all.runs
        earlier = self.all.never_held()
        self.all.add(run, holds=True)
        self.has_conversations = self.has_conversations or trajectory.scope == "conversation"
        version = trajectory.resource.get(VERSION)
        if version is not None and (version in self.versions or len(self.versions) < _MAX_NAMES):
            self.versions[version] += 1
        if trajectory.tools_offered is not None:
            offered = {tool.name: tool for tool in trajectory.tools_offered}
            for name in dict.fromkeys((*(call.name for call in trajectory.calls), *offered)):
                tool = self._tool(name)
                if tool is not None and name in offered:
                    tool.offer(offered[name])
                elif tool is not None:
                    tool.was_missing = True
        self.receipts.add(trajectory)
        by_tool: defaultdict[str, list[ToolCall]] = defaultdict(list)
        for call in trajectory.calls:
            if self._tool(call.name) is not None:
                by_tool[call.name].append(call)
        self._add_calls(run, trajectory, by_tool)
        for name in by_tool.keys() - self.called.keys():
            self.called[name] = earlier.copy()
        for name, evidence in self.called.items():
            evidence.add(run, holds=name in by_tool)
        if trajectory.hidden_turns:
            return
        for score in scores(_MEASURE, trajectory):
            for name, part in FIGURES.items():
                if part in score.parts:
                    self.figures[name].add(run, score.parts[part])
        for name, calls in by_tool.items():
            self.calls_of[name].add(run, len(calls))

    def _tool(self, name: str) -> ToolUsage | None:
        if name not in self.tools:
            if len(self.tools) == _MAX_TOOLS:
                return None
            self.tools[name] = ToolUsage(name)
        return self.tools[name]

    def _add_calls(self, run: int, trajectory: Trajectory, by_tool: Mapping[str, list[ToolCall]]) -> None:
        self.calls += len(trajectory.calls)
        source = trajectory.conversation_id or trajectory.trace_id
        before = dict(_tools_before(trajectory))
        for name, calls in by_tool.items():
            tool = self.tools[name]
            tool.add_calls(run, calls, before[name], source)
            if name in trajectory.writing_tools:
                tool.add_confirmation(run, trajectory)
            for call in calls:
                tool.agents[agent_of(call, trajectory)] += 1
        for agent in trajectory.agents:
            if agent in self.agents or len(self.agents) < _MAX_NAMES:
                self.agents[agent] += 1
        sources = trails(trajectory)
        for call in trajectory.calls:
            if call.name in by_tool and any(True for _ in identifying_values(call)):
                self.tools[call.name].add_sources(run, call, sources)


def _tools_before(trajectory: Trajectory) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield each tool with those that had worked in turns before its first call."""
    worked: set[str] = set()
    seen: set[str] = set()
    here: set[str] = set()
    turn = -1
    for call in trajectory.calls:
        if call.turn != turn:
            worked |= here
            here, turn = set[str](), call.turn
        if call.name not in seen:
            seen.add(call.name)
            yield call.name, frozenset(worked)
        if not call.has_failed:
            here.add(call.name)
