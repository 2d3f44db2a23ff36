"""How much of each framework's captured runs can be rebuilt: the table in docs/producers.md, and a badge for each, made from the captures.

    python -m tests.recovery_table               # print the table
    python -m tests.recovery_table --write       # put it into the page, and the badges beside it
    python -m tests.recovery_table FILE...       # print the row of a recording of the fixed scenario, and each fault

Values are compared with the truth of the captures, but for those with content switched off. What a producer does not export counts as
not rebuilt: the table shows a user what to expect. The fixed scenario is `tests/producers/stub/conformance.json`.
"""

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct

from tests.captures import switches
from toolgauge.config.model import Config
from toolgauge.model.content import Content, NotRecorded, Recorded, Unparsed
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.recordings.recorded_requests import find_files, read, scorecards
from toolgauge.report.terminal import shortened
from toolgauge.score.recorded_values import result_value
from toolgauge.service.pipeline_factory import offline_pipeline

PAGE = Path(__file__).parent.parent / "docs" / "producers.md"
CORPUS = Path(__file__).parent / "corpus"
BADGES = PAGE.parent / "badges"
SCENARIO = Path(__file__).parent / "producers" / "stub" / "conformance.json"
# The columns that decide whether a run can be rebuilt.
COLUMNS: tuple[str, ...] = ("calls", "arguments", "results", "failures", "offers", "conversation")
_COLUMNS = (*COLUMNS, "ids", "agents")
_ABSENT, _DIFFERENT, _NOT_FOUND = "not recorded", "another value", "not found"
_HEAD = "| captured from | language | version | " + " | ".join(_COLUMNS) + " |"
_MARKS = ("<!-- recovered -->\n", "<!-- /recovered -->")
# What tells the version of a capture best: the instrumentation where there is one, else the framework.
_VERSIONS = re.compile(r"opentelemetry-(sdk|semantic-conventions.*)|openai|node|openinference-semantic.*")
_PREFERRED = re.compile(
    r"openinference-instrumentation|opentelemetry-instrumentation|openlit|langfuse|langsmith|traceloop"
)


class MadeCall(Struct, frozen=True, kw_only=True):
    """A call that really happened; where `result` is `None` there is none to compare."""

    name: str
    arguments: object = None
    # What the tool received, where that differs.
    effective_arguments: object = None
    result: object = None
    error: object = None
    executed: bool = True
    rejected: object = False
    call_id: str | None = None
    agent: str | None = None
    kind: str = "function"


class MadeRun(Struct, frozen=True, kw_only=True):
    """A run that really happened, in one trace or several."""

    tool_calls: tuple[MadeCall, ...]
    trace_id: str = ""
    other_trace_ids: tuple[str, ...] = ()
    conversation_id: str | None = None


class Truth(Struct, frozen=True, kw_only=True):
    """The runs of one scenario."""

    traces: tuple[MadeRun, ...]
    scenario: str = ""
    conversation_id: str | None = None
    conversation_id_in_capture: bool | None = None
    session_id: str | None = None
    versions: dict[str, str] = {}


class Compared(NamedTuple):
    """One value of a run; `wrong` describes its fault, if any."""

    column: str
    call: str
    wrong: str = ""


class Cell(Struct, frozen=True, kw_only=True):
    """How many values of one column are right, and how many of the others are absent."""

    right: int
    absent: int
    of: int

    @property
    def word(self) -> str:
        """Answer whether the column can be rebuilt; `-` where there was nothing to find."""
        if self.right == self.of:
            return "yes" if self.of else "-"
        if self.right:
            return f"partly {self.right}/{self.of}"
        return "not recorded" if self.absent == self.of else "no"


def cells(compared_values: Iterable[Compared], columns: Sequence[str] = COLUMNS) -> dict[str, Cell]:
    """Sum up compared values by column."""
    by_column: dict[str, list[Compared]] = {column: [] for column in columns}
    for one in compared_values:
        if one.column in by_column:
            by_column[one.column].append(one)
    return {
        column: Cell(
            right=sum(not one.wrong for one in values),
            absent=sum(one.wrong == _ABSENT for one in values),
            of=len(values),
        )
        for column, values in by_column.items()
    }


def compared(run: MadeRun, found: Sequence[Trajectory], conversation_id: str | None) -> Iterator[Compared]:
    """Compare a run with the trajectories of its traces, value by value."""
    left = [call for trajectory in found for call in trajectory.calls if call.kind == "tool"]
    offers = [trajectory.tools_offered for trajectory in found if trajectory.tools_offered is not None]
    offered = {tool.name for tools in offers for tool in tools}
    if conversation_id is not None and found:
        ids = {one.conversation_id for one in found if one.calls} or {one.conversation_id for one in found}
        is_right = ids == {conversation_id}
        yield Compared("conversation", "", _unless(is_right, _ABSENT if ids == {None} else _DIFFERENT))
    for made in run.tool_calls:
        call = taken(made, left)
        yield Compared("calls", made.name, _unless(call is not None, _NOT_FOUND))
        yield from _of_call(made, call)
        if made.executed and made.kind == "function":
            wrong = _NOT_FOUND if call is None or offers else _ABSENT
            yield Compared("offers", made.name, _unless(made.name in offered, wrong))
    yield from (Compared("calls", call.name, "never made") for call in left)


def _of_call(made: MadeCall, call: ToolCall | None) -> Iterator[Compared]:
    if call is None:
        shows = {"arguments": True, "results": made.result is not None, "failures": made.error or made.rejected}
        yield from (Compared(column, made.name, _NOT_FOUND) for column, is_shown in shows.items() if is_shown)
        return
    yield Compared("arguments", made.name, _unless(has_arguments(made, call), _absent(call.arguments)))
    if made.result is not None:
        yield Compared("results", made.name, _unless(_has_result(made.result, call), _absent(call.result)))
    if made.executed and made.error:
        yield Compared("failures", made.name, _unless(call.error is not None, "not known to have failed"))
    elif made.rejected and not made.executed:
        yield Compared("failures", made.name, _unless(call.state == "rejected", "not known to be rejected"))
    elif made.executed and call.has_failed:
        yield Compared("failures", made.name, "taken for a failure")
    if made.call_id:
        yield Compared("ids", made.name, _unless(call.call_id == made.call_id, _DIFFERENT if call.call_id else _ABSENT))
    if made.agent:
        yield Compared("agents", made.name, _unless(call.agent is not None, _ABSENT))


def _unless(is_right: object, wrong: str) -> str:
    return "" if is_right else wrong


def _absent(content: Content) -> str:
    return _ABSENT if isinstance(content, NotRecorded) else _DIFFERENT


def taken(made: MadeCall, left: list[ToolCall]) -> ToolCall | None:
    """Take the found call that is meant: of this name, preferably with these arguments."""
    named = [call for call in left if call.name == made.name]
    best = next((call for call in named if has_arguments(made, call)), named[0] if named else None)
    if best is not None:
        left.remove(best)
    return best


def has_arguments(made: MadeCall, call: ToolCall) -> bool:
    """Return whether the call has the arguments that the model wrote or the tool received."""
    options = (made.arguments, *((made.effective_arguments,) if made.effective_arguments is not None else ()))
    match call.arguments:
        case Recorded(value=value):
            return value in options
        case Unparsed(text=text):
            return any(isinstance(option, str) and option.strip() == text.strip() for option in options)
        case NotRecorded():
            return False


def _has_result(made: object, call: ToolCall) -> bool:
    match call.result:
        case Recorded(value=value):
            found = result_value(value)
        case Unparsed(text=text):
            found = text
        case NotRecorded():
            return False
    # Frameworks put words of their own around a text.
    return found == made or (isinstance(made, str) and made in str(found))


def shared_conversation(found: Iterable[Trajectory]) -> str | None:
    """Return the only conversation id of the trajectories with calls; some frameworks choose it themselves."""
    ids = {one.conversation_id for one in found if one.calls}
    return ids.pop() if len(ids) == 1 else None


def row_of_scenario(found: Sequence[Trajectory]) -> tuple[dict[str, Cell], list[str]]:
    """Compare a recording of the fixed scenario with what really happened in it; return its row, and a line for each fault."""
    truth = msgspec.json.decode(SCENARIO.read_bytes(), type=Truth)
    calls = tuple(chain.from_iterable(run.tool_calls for run in truth.traces))
    wanted = shared_conversation(found) or truth.conversation_id
    values = tuple(compared(MadeRun(tool_calls=calls), found, wanted))
    faults = ((f"{one.column} of `{one.call}`" if one.call else one.column, one.wrong) for one in values if one.wrong)
    return cells(values), [f"{shortened(name, 200)}: {wrong}" for name, wrong in faults]


def rows() -> dict[str, tuple[Sequence[Truth], dict[str, Cell]]]:
    """Compare every producer's captures with their truth."""
    return {folder.name: row_of(folder) for folder in sorted(CORPUS.iterdir()) if folder.is_dir()}


def row_of(folder: Path) -> tuple[Sequence[Truth], dict[str, Cell]]:
    """Compare the captures of one producer with their truth."""
    return truths_of(folder), cells(_of(folder), _COLUMNS)


def table(found: Mapping[str, tuple[Sequence[Truth], dict[str, Cell]]]) -> str:
    """Make the whole table."""
    lines = [_HEAD, "|---" * (len(_COLUMNS) + 3) + "|"]
    for name, (truths, row) in found.items():
        words = " | ".join(cell.word for cell in row.values())
        link = f'<a id="{name}"></a>[{name}](badges/{name}.svg)'
        lines.append(f"| {link} | {language(truths)} | {_version(truths, name)} | {words} |")
    return "\n".join(lines) + "\n"


def badge(row: Mapping[str, Cell]) -> str:
    """Draw how many of the columns are right in all captures."""
    words = [row[column].word for column in COLUMNS if row[column].of]
    right = words.count("yes")
    colour = "#2e7d32" if right == len(words) else "#b26a00" if right * 2 > len(words) else "#b3261e"
    label = f"run rebuilt: {right} of {len(words)}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="152" height="20" role="img" aria-label="{label}">'
        f'<title>{label}</title><rect width="152" height="20" rx="3" fill="#555"/>'
        f'<path d="M96 0h53a3 3 0 0 1 3 3v14a3 3 0 0 1-3 3H96z" fill="{colour}"/>'
        '<g fill="#fff" font-family="Verdana,sans-serif" font-size="11" text-anchor="middle">'
        f'<text x="48" y="14">run rebuilt</text><text x="124" y="14">{right} of {len(words)}</text></g></svg>\n'
    )


def truths_of(folder: Path) -> list[Truth]:
    """Read what really happened in the captures of a producer."""
    return [msgspec.json.decode(file.read_bytes(), type=Truth) for file in sorted(folder.glob("*.truth.json"))]


def _of(folder: Path) -> Iterator[Compared]:
    found = trajectories(folder)
    for truth in truths_of(folder):
        runs = truth.traces if truth.scenario not in switches(folder.name).off else ()
        here = [[one for name in (run.trace_id, *run.other_trace_ids) for one in found.get(name, ())] for run in runs]
        is_own = truth.conversation_id_in_capture is False
        chosen = shared_conversation(chain.from_iterable(here)) if is_own else None
        for run, found_of_run in zip(runs, here, strict=True):
            wanted = truth.session_id or run.conversation_id or truth.conversation_id
            yield from compared(run, found_of_run, wanted and (chosen or wanted))


def language(truths: Sequence[Truth]) -> str:
    """Name the language by the packages of the captured program."""
    packages = {name for truth in truths for name in truth.versions}
    if packages & {"@openai/codex", "rust"}:
        # Codex's package has a program in it, not a script.
        return "Rust"
    if "kotlin" in packages:
        return "Kotlin"
    if "node" in packages:
        return "JavaScript"
    if any("java" in name for name in packages):
        return "Java"
    return "Go" if any(name.endswith("/go") for name in packages) else "Python"


def _version(truths: Sequence[Truth], folder: str) -> str:
    versions = {name: version for truth in truths for name, version in truth.versions.items()}
    if not folder.startswith("openinference"):
        versions = {name: version for name, version in versions.items() if not name.startswith("openinference")}
    named = [name for name in versions if not _VERSIONS.fullmatch(name)]
    words = set(folder.replace("legacy", "").split("-"))

    def liking(name: str) -> tuple[int, bool]:
        return len(words & set(re.split(r"[-/@]", name))), bool(_PREFERRED.match(name))

    best = max(named or versions, key=liking)
    return f"{best} {versions[best]}"


@lru_cache(maxsize=1)
def trajectories(*paths: Path) -> dict[str, list[Trajectory]]:
    found: dict[str, list[Trajectory]] = {}
    recording = read(find_files([*map(str, paths)]), _no_progress)
    for scorecard in scorecards(recording, offline_pipeline(Config(), ())):
        found.setdefault(scorecard.trajectory.trace_id, []).append(scorecard.trajectory)
    return found


def _no_progress(size: int) -> None:
    del size


def main() -> None:
    """Print the table or the row of a recording, or write the table into the page with the badges."""
    if files := [Path(name) for name in sys.argv[1:] if name != "--write"]:
        row, faults = row_of_scenario([*chain.from_iterable(trajectories(*files).values())])
        print(f"| {' | '.join(row)} |\n{'|---' * len(row)}|\n| {' | '.join(cell.word for cell in row.values())} |")
        print(*faults, sep="\n")
        return
    found = rows()
    if "--write" not in sys.argv:
        print(table(found), end="")
        return
    before, _, rest = PAGE.read_text().partition(_MARKS[0])
    _, _, after = rest.partition(_MARKS[1])
    PAGE.write_text(before + _MARKS[0] + table(found) + _MARKS[1] + after)
    BADGES.mkdir(exist_ok=True)
    for file in BADGES.iterdir():
        file.unlink()
    for name, (_, row) in found.items():
        (BADGES / f"{name}.svg").write_text(badge(row))


def written() -> str:
    """Return the table that the page holds."""
    return PAGE.read_text().partition(_MARKS[0])[2].partition(_MARKS[1])[0]


if __name__ == "__main__":
    main()
