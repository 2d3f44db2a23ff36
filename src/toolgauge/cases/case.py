"""Reads offline cases: one `Case` a line, or the problem of the line, so that a bad line never stops the others."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import cast

from toolgauge.model.errors import RecordingError
from toolgauge.model.json import Json, JsonObject, values_within
from toolgauge.recognize.values import as_object
from toolgauge.recordings.recorded_requests import STDIN, UNREADABLE, decompressed, opened


class CaseError(Exception):
    """A case cannot be read or scored; the message names the key and the allowed values."""


_MAX_DEPTH = 100
_SNIFFED_BYTES = 1 << 16
_ARRAY = "one JSON object a line, not an array: `jq -c '.[]' FILE` writes such lines"
_TOO_DEEP = f"nested deeper than {_MAX_DEPTH} levels"
# A case without these keys may pass.
_MISSED = ("config", "expected", "pass_at")
# Criteria of UiPath are written either way.
_SPELLINGS = {
    "toolCalls": "tool_calls",
    "toolOutputs": "tool_outputs",
    "toolCallsOrder": "tool_calls_order",
    "toolCallsCount": "tool_calls_count",
    "expectedOutput": "expected_output",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One case. `expected` is empty where nothing is expected; `verdicts` are a scripted judge's answers, in order."""

    place: str
    name: str
    evaluator: str
    config: JsonObject
    expected: JsonObject
    actual: JsonObject
    pass_at: float
    verdicts: tuple[Json, ...]


def parse(place: str, content: bytes) -> Case:
    """Read one line of a file; raise `CaseError` for a line without a readable case."""
    try:
        written: Json = json.loads(content)
    except ValueError as error:
        raise CaseError(_ARRAY if content.strip() == b"[" else f"not JSON: {error}") from error
    except RecursionError:
        raise CaseError(_TOO_DEEP) from None
    # An empty list at the end is a level, too.
    if values_within(written, _MAX_DEPTH - 1) is None:
        raise CaseError(_TOO_DEEP)
    if not isinstance(written, dict):
        raise CaseError(_ARRAY if isinstance(written, list) else "a case is a JSON object")
    _check(written)
    expected = as_object(written.get("expected"))
    return Case(
        place=place,
        # `_check` has checked the types of these casts.
        name=cast("str", written["id"]),
        evaluator=cast("str", written["evaluator"]),
        config=as_object(written.get("config")),
        expected={_SPELLINGS.get(key, key): value for key, value in expected.items()},
        actual=as_object(written.get("actual")),
        pass_at=cast("float", written.get("pass_at", 1.0)),
        verdicts=tuple(cast("list[Json]", written.get("verdicts") or [])),
    )


def _check(written: JsonObject) -> None:
    if "case" in written and not written.keys() & {"id", "actual"}:
        raise CaseError(
            "this looks like a line of a reference file (`case`, `expected`), not a case with `id` and `actual`: name the file in a "
            "criterion, `reference: {file: FILE, key: eval.case.id}`, and score a recording by `toolgauge check --criteria`"
        )
    for key in ("id", "evaluator"):
        if not isinstance(written.get(key), str) or not written[key]:
            raise CaseError(f"`{key}` must be a text")
    name = written["id"]
    for key in ("config", "expected", "actual"):
        if not isinstance(written.get(key) or {}, dict):
            raise CaseError(f"case `{name}`: `{key}` must be an object")
    if not isinstance(written.get("actual"), dict):
        raise CaseError(f"case `{name}`: there is no `actual`")
    if not isinstance(written.get("verdicts") or [], list):
        raise CaseError(f"case `{name}`: `verdicts` must be a list")
    pass_at = written.get("pass_at", 1.0)
    if not isinstance(pass_at, int | float) or isinstance(pass_at, bool) or not 0 <= pass_at <= 1:
        raise CaseError(f"case `{name}`: `pass_at` must be a number from 0 to 1")
    # Find a key that is nearly one of ours: a case may carry what else it likes, but not `pas_at`.
    for key in written:
        meant = "pass_at" if key == "threshold" and "pass_at" not in written else _meant(key)
        if meant is not None:
            raise CaseError(f"case `{name}`: unknown key `{key[:80]}`; did you mean `{meant}`?")


# Cases of one file have the same keys: this halves the time of reading a case.
@lru_cache(maxsize=256)
def _meant(key: str) -> str | None:
    close = () if key in _MISSED else get_close_matches(key, _MISSED, n=1, cutoff=0.8)
    return close[0] if close else None


def lines(files: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """Yield the place and the content of each line that has any, of all files (`-` is standard input); raise `RecordingError` for an unreadable file."""
    for file in files:
        shown = "standard input" if file == STDIN else file
        try:
            with opened(file) as source, decompressed(source) as stream:
                for number, content in enumerate(stream, 1):
                    if content.strip():
                        yield f"{shown}:{number}", content
                        if number == 1 and content.strip() == b"[":
                            break
        except UNREADABLE as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else error
            raise RecordingError(f"cannot read `{shown}`: {reason}") from error


def holds_cases(file: str) -> bool:
    """Return whether a file has cases, by the beginning of its first line; an unreadable one has none."""
    try:
        if not Path(file).is_file():
            return False
        with opened(file) as source, decompressed(source) as stream:
            first = stream.read(_SNIFFED_BYTES).lstrip().partition(b"\n")[0]
    except UNREADABLE:
        return False
    return first.startswith(b"{") and b'"evaluator"' in first and b'"resource' not in first


def check_files(files: Sequence[str]) -> None:
    """Raise `RecordingError` for the first path that is not a file, before anything is scored."""
    for file in files:
        if file != STDIN and not Path(file).is_file() and not Path(file).is_fifo():
            problem = "this is a directory" if Path(file).is_dir() else "no such file"
            raise RecordingError(f"{problem}: `{file}`", hint="cases are read from files, one JSON object a line")
