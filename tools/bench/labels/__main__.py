"""What the default criteria find of what people marked in recorded runs, and what they fail that nobody marked.

    python -m tools.bench.labels FOLDER [--recordings RECORDINGS] [--set NAME ...] [--criteria FILE ...] [--write]

FOLDER holds `labels.json` and the traces of each set (see `labelled_runs`), RECORDINGS recorded runs with verdicts (see
`tools.bench.recorded_runs`). With `--write` the tables replace those in `docs/evidence.md`, which explains the columns.
"""

import argparse
from pathlib import Path

from toolgauge.service.criteria_factory import load_for_replay
from tools.bench.labels.comparison import Comparison, verdicts
from tools.bench.labels.labelled_runs import read_sets
from tools.bench.labels.tables import Measured, rewrite, tables
from tools.bench.recorded_runs import recordings_folder, scored_runs
from tools.bench.reference_free import F1

PAGE = Path(__file__).parents[3] / "docs" / "evidence.md"
RETRIES_COUNT = ("defaults.tool_success.retries=count",)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--recordings", type=Path, help="recorded runs with verdicts")
    parser.add_argument(
        "--set", action="append", dest="sets", help="measure this set alone; may be given several times"
    )
    parser.add_argument("--criteria", action="append", default=[], help="score these criteria besides the default ones")
    parser.add_argument("--write", action="store_true", help=f"write the tables into {PAGE.name}")
    chosen = parser.parse_args()
    sets = read_sets(chosen.folder)
    names = chosen.sets or list(sets)
    if unknown := [name for name in names if name not in sets]:
        parser.error(f"no set `{unknown[0]}` in {chosen.folder}")
    default, retries = (
        {
            name: Comparison(sets[name], verdicts(chosen.folder / f"{name}.jsonl.xz", overrides, chosen.criteria))
            for name in names
        }
        for overrides in ((), RETRIES_COUNT)
    )
    recorded = {}
    if chosen.recordings is not None:
        recorded = scored_runs(recordings_folder(chosen.recordings) / "tau", "genai", criteria=F1)
    made = tables(_criterion_names(chosen.criteria), Measured(default, retries, recorded))
    if chosen.write:
        rewrite(PAGE, made)
    for name, table in made.items():
        print(f"\n== {name}\n\n{table}")


def _criterion_names(files: list[str]) -> list[str]:
    """Name the criteria that can fail."""
    _, criteria = load_for_replay((), (), files, {})
    return [criterion.name.removeprefix("default.") for criterion in criteria if criterion.pass_at > 0]


if __name__ == "__main__":
    main()
