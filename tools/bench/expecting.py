"""How references made of one passed run judge the other runs of the same task: `toolgauge expect` on recorded runs with verdicts.

    python -m tools.bench.expecting [RECORDINGS]

RECORDINGS (or TOOLGAUGE_RECORDINGS) is a folder with a manifest of verdicts and a folder of streams for each dialect, or one in
it (see `recorded_runs`). Each passed run is the reference of one criterion; the criteria are written, read again, and scored on
all runs of the task.
"""

import argparse
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from toolgauge.authoring.documents import criteria_lines, document
from toolgauge.authoring.runs import RecordedRun, RunReader, Task
from toolgauge.config.model import Config
from toolgauge.recordings.recorded_requests import find_files, read, scorecards
from toolgauge.score.criterion import ToolKinds
from toolgauge.service.criteria_factory import load_for_replay
from toolgauge.service.pipeline_factory import offline_pipeline, redactor
from tools.bench.recorded_runs import CASE_KEY, DIALECTS, Run, ScoredRun, scored_runs, word

ACCEPTED, REJECTED = 0.9, 0.8


@dataclass(frozen=True)
class Judgement:
    """What one criterion makes of one run; `outcome` is `None` where it was not scored."""

    sources: tuple[str, ...]
    run: Run
    outcome: str | None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recordings", type=Path, nargs="?", default=os.environ.get("TOOLGAUGE_RECORDINGS"))
    parser.add_argument("--show", action="store_true", help="print each judgement that is not as the verdict")
    chosen = parser.parse_args()
    if chosen.recordings is None:
        parser.error("no folder with recordings: an argument or TOOLGAUGE_RECORDINGS")
    folder = _folder(Path(chosen.recordings))
    for dialect in DIALECTS:
        runs = {name: scored for name, scored in scored_runs(folder, dialect).items() if scored.conversations}
        recorded = {name: _recorded(scored) for name, scored in runs.items()}
        for title, groups in (
            ("one passed run", _each),
            ("all other passed runs, where there are two or more", _others),
        ):
            found = list(_judgements(folder, dialect, runs, recorded, groups))
            _print(f"{dialect}, {title}", found, is_shown=chosen.show)


def _folder(named: Path) -> Path:
    found = [place for place in (named, named.parent, named / "tau") if (place / "manifest.jsonl.xz").exists()]
    if not found:
        raise SystemExit(f"no manifest.jsonl.xz in {named}")
    return found[0]


def _recorded(scored: ScoredRun) -> RecordedRun:
    kinds = ToolKinds()
    reader = RunReader(counts=kinds.writes, kinds=kinds, redactor=redactor(Config()), case_key=CASE_KEY)
    return reader.read(scored.conversations[0], scored.run.trace_ids("genai"), ())


_Groups = Callable[[Sequence[str]], Iterator[tuple[str, ...]]]


def _each(passed: Sequence[str]) -> Iterator[tuple[str, ...]]:
    return ((name,) for name in passed)


def _others(passed: Sequence[str]) -> Iterator[tuple[str, ...]]:
    return (tuple(other for other in passed if other != name) for name in passed if len(passed) > 2)


def _judgements(
    folder: Path, dialect: str, runs: dict[str, ScoredRun], recorded: dict[str, RecordedRun], groups: _Groups
) -> Iterator[Judgement]:
    by_task: dict[str, list[str]] = {}
    for name, scored in runs.items():
        by_task.setdefault(scored.run.row["task"], []).append(name)
    sources = [
        group for names in by_task.values() for group in groups([name for name in names if runs[name].run.has_passed])
    ]
    tasks = [Task(runs[group[0]].run.row["task"], [recorded[name] for name in group]) for group in sources]
    written = document(tasks, tools="writes", case_key=CASE_KEY, is_promoted=False, is_one_criterion=False)
    outcomes = _outcomes(folder, dialect, "\n".join(criteria_lines(written, None)))
    for criterion, group in zip(written.criteria, sources, strict=True):
        task = runs[group[0]].run.row["task"]
        for name in by_task[task]:
            if name not in group:
                conversation = runs[name].run.conversation(dialect)
                yield Judgement(group, runs[name].run, outcomes.get((conversation, criterion.name)))


def _outcomes(folder: Path, dialect: str, criteria: str) -> dict[tuple[str, str], str]:
    with tempfile.TemporaryDirectory() as temporary:
        file = Path(temporary) / "criteria.yaml"
        file.write_text(criteria, encoding="utf-8")
        config, made = load_for_replay((), ("defaults.enabled=false",), [str(file)], {})
    found: dict[tuple[str, str], str] = {}
    requests = read(find_files([str(folder / dialect)]), lambda _size: None)
    for scorecard in scorecards(requests, offline_pipeline(config, made)):
        for result in scorecard.results:
            found[scorecard.trajectory.conversation_id or "", result.criterion] = word(result)
    return found


def _print(title: str, found: Sequence[Judgement], *, is_shown: bool) -> None:
    print(f"\n== {title}")
    for has_passed, wanted, aim in ((True, "pass", ACCEPTED), (False, "fail", REJECTED)):
        judged = [one for one in found if one.run.has_passed is has_passed]
        right = [one for one in judged if one.outcome == wanted]
        verb = "passed runs accepted" if has_passed else "failed runs rejected"
        if not judged:
            print(f"{verb}: there are none")
            continue
        share = len(right) / len(judged)
        print(
            f"{verb}: {len(right)} of {len(judged)}, {share:.1%} (aim: {aim:.0%}: {'met' if share >= aim else 'MISSED'})"
        )
        for one in judged if is_shown else ():
            if one.outcome != wanted:
                print(f"  {one.outcome}: {one.run.name}, reference {', '.join(one.sources)}")


if __name__ == "__main__":
    main()
