"""Golden lines: a case, and what the original said about it."""

import functools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from toolgauge.cases.case import Case, parse
from toolgauge.cases.scoring import CaseResult
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.outcomes import Errored, NotEvaluated, Scored

_CLOSE = 1e-9
# What an original says besides its score; an evaluator says the same under the same names in `original`.
_ORIGINAL = ("details", "status", "passed", "key")
_BFCL = "bfcl.jsonl"


@dataclass(frozen=True, slots=True)
class Golden:
    """One line."""

    case: Case
    said: JsonObject


@functools.cache
def read_file(file: Path) -> list[Golden]:
    read = _bfcl if file.name == _BFCL else _peer
    with file.open("rb") as lines:
        return [read(f"{file.name}:{number}", content) for number, content in enumerate(lines, 1) if content.strip()]


def read_goldens(folder: Path) -> list[Golden]:
    return [golden for file in sorted(folder.glob("*.jsonl")) for golden in read_file(file)]


def _peer(place: str, content: bytes) -> Golden:
    case = parse(place, content)
    assert isinstance(case, Case), f"{place}: {case.problem}"
    return Golden(case, json.loads(content))


def _bfcl(place: str, content: bytes) -> Golden:
    """Read a line of BFCL, which has its own keys: accepted is a score of 1."""
    written = cast("JsonObject", json.loads(content))  # a golden line is an object
    case = Case(
        place=place,
        name=str(written["id"]),
        evaluator="bfcl.ast",
        config={"name_rule": written["name_rule"], "test_category": written["category"]},
        expected={"allowed": written["allowed"]},
        actual={"calls": written["calls"], "functions": written["functions"]},
        pass_at=1.0,
        verdicts=(),
    )
    return Golden(case, {"score": written["valid"], "details": {"error_type": written["error_type"]}})


def differences(golden: Golden, result: CaseResult) -> list[str]:
    """Say in which ways the result is not the original's."""
    said, outcome = golden.said, result.outcome
    score = said.get("score")
    if "error" in said or said.get("score_type") == "ERROR":
        return [] if isinstance(outcome, Errored) else [f"the original has an error; ours is {outcome}"]
    if score is None:
        found = [] if isinstance(outcome, NotEvaluated) else [f"the original gives no score; ours is {outcome}"]
    elif not isinstance(outcome, Scored):
        found = [f"the original scores {score}; ours is {outcome}"]
    else:
        found = list(_score_differences(cast("float", score), outcome))  # neither null nor, in these files, a text
    for key in _ORIGINAL:
        if said.get(key) is not None and not _is_close(said[key], result.original.get(key)):
            found.append(f"{key}: the original says {said[key]!r}; ours {result.original.get(key)!r}")
    return found


def _score_differences(score: float, outcome: Scored) -> list[str]:
    found: list[str] = []
    number = float(score)
    clamped = min(max(number, 0.0), 1.0)
    if abs(outcome.value - clamped) > _CLOSE:
        found.append(f"the original scores {number}; ours {outcome.value}: {outcome.explanation}")
    if number != clamped and "peer_score" not in outcome.parts:
        found.append(f"the original scores {number}; ours lacks the raw number in `parts.peer_score`")
    if abs(outcome.parts.get("peer_score", number) - number) > _CLOSE:
        found.append(f"the original scores {number}; `parts.peer_score` is {outcome.parts['peer_score']}")
    return found


def _is_close(wanted: Json, found: Json) -> bool:
    """Compare deeply; numbers with a tolerance, booleans and numbers apart."""
    if isinstance(wanted, bool) or isinstance(found, bool):
        return wanted is found
    if isinstance(wanted, int | float) and isinstance(found, int | float):
        return abs(wanted - found) <= _CLOSE
    if isinstance(wanted, dict) and isinstance(found, dict):
        return wanted.keys() == found.keys() and all(_is_close(value, found[key]) for key, value in wanted.items())
    if isinstance(wanted, list) and isinstance(found, list):
        return len(wanted) == len(found) and all(map(_is_close, wanted, found))
    return wanted == found
