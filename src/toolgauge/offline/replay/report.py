"""Diagnoses of producers as JSON objects and as lines for a person."""

from collections.abc import Iterator, Sequence

from toolgauge.model.json import JsonObject
from toolgauge.offline.replay.advice import Remedy
from toolgauge.offline.replay.doctor import Diagnosis, Missing
from toolgauge.offline.replay.style import PLAIN, Style, shortened

_NAME_LENGTH = 200


def diagnosis_object(diagnosis: Diagnosis) -> JsonObject:
    """Describe one producer for `doctor --json`."""
    return {
        "service": diagnosis.producer.service or None,
        "scope": diagnosis.producer.scope,
        "version": diagnosis.producer.version or None,
        "dialects": [dialect for dialect, _ in diagnosis.heard.dialects.most_common()],
        "spans": diagnosis.heard.spans,
        "log_records": diagnosis.heard.log_records,
        "calls": diagnosis.calls,
        "ok": not diagnosis.has_problems,
        "missing": [_missing_object(missing) for missing in diagnosis.missing],
    }


def _missing_object(missing: Missing) -> JsonObject:
    return {
        "what": missing.fact,
        "grade": missing.grade,
        "count": missing.count,
        "of": missing.of,
        "unit": missing.unit,
        "never_recorded": missing.remedy.never,
        "switches": list(missing.remedy.switches),
        "advice": missing.remedy.how,
        "not_evaluated": list(missing.not_evaluated),
        "shown_less": list(missing.shown_less),
        "cost": missing.cost,
    }


def diagnosis_lines(diagnosis: Diagnosis, style: Style = PLAIN) -> Iterator[str]:
    """Describe one producer for a person: who it is, what was recognised, then what is missing."""
    producer, heard = diagnosis.producer, diagnosis.heard
    scope = shortened(" ".join((producer.scope or "(no scope)", producer.version)).strip(), _NAME_LENGTH)
    yield style.head(f"{shortened(producer.service or 'unknown service', _NAME_LENGTH)}: {scope}")
    dialects = ", ".join(dialect for dialect, _ in heard.dialects.most_common())
    records = f", {heard.log_records} log records" if heard.log_records else ""
    yield f"  dialect {dialects}: {heard.spans} spans{records}; tells of {_counted(diagnosis.calls, 'call')}"
    # One switch mostly governs several facts: said once, it is read.
    alike: dict[tuple[str, Remedy], list[Missing]] = {}
    for missing in diagnosis.missing:
        alike.setdefault((missing.grade, missing.remedy), []).append(missing)
    for (grade, remedy), group in alike.items():
        yield from _missing_lines(grade, remedy, group, style)
    if not diagnosis.missing:
        yield f"  {style.good('nothing is missing')}"


def _missing_lines(grade: str, remedy: Remedy, group: Sequence[Missing], style: Style) -> Iterator[str]:
    word = style.bad("problem") if grade == "problem" else style.doubtful("note")
    never = "; never recorded by this producer" if remedy.never else ""
    yield f"  {word}: {', '.join(missing.what for missing in group)}{never}"
    # Where no call is seen, what is missing of it needs no words of its own.
    for missing in group[:1] if group[0].fact == "calls" else group:
        lost = f"; not evaluated: {_named(missing.not_evaluated)}" if missing.not_evaluated else ""
        less = f"; the judge is shown less: {_named(missing.shown_less)}" if missing.shown_less else ""
        yield f"    {missing.cost}{lost}{less}"
    yield f"    {'instead' if remedy.never else 'do'}: {remedy.how}"


def _named(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _counted(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
