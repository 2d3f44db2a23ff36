"""The table in docs/producers.md of how much of each framework's captured runs can be rebuilt, and a badge for each, made from the captures.

    python -m tests.recovery_table          # print the table
    python -m tests.recovery_table --write  # put it into the page, and the badges beside it

Values are compared with the truth of the captures, but for those with content switched off. What a producer does not export counts as
not rebuilt: the table shows a user what to expect.
"""

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from pathlib import Path

import msgspec

from tests.captures import switches
from toolgauge.config.model import Config
from toolgauge.model.trajectory import Trajectory
from toolgauge.recordings.conformance import COLUMNS, Cell, Compared, Truth, cells, compared, shared_conversation
from toolgauge.recordings.recorded_requests import find_files, read, scorecards
from toolgauge.service.pipeline_factory import offline_pipeline

PAGE = Path(__file__).parent.parent / "docs" / "producers.md"
CORPUS = Path(__file__).parent / "corpus"
BADGES = PAGE.parent / "badges"
_COLUMNS = (*COLUMNS, "ids", "agents")
_HEAD = "| captured from | language | version | " + " | ".join(_COLUMNS) + " |"
_MARKS = ("<!-- recovered -->\n", "<!-- /recovered -->")
# What tells the version of a capture best: the instrumentation where there is one, else the framework.
_VERSIONS = re.compile(r"opentelemetry-(sdk|semantic-conventions.*)|openai|node|openinference-semantic.*")
_PREFERRED = re.compile(
    r"openinference-instrumentation|opentelemetry-instrumentation|openlit|langfuse|langsmith|traceloop"
)


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
    """Print the table, or write it into the page with the badges."""
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
