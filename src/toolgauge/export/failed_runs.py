"""Writes a failed run for people: as a sentence and a JSON object. Names come from spans: they are cut and quoted."""

from fnmatch import fnmatchcase

from toolgauge.export.regression_events import iso_time, quoted, trace_links
from toolgauge.model.json import JsonObject
from toolgauge.model.metrics import fit_label
from toolgauge.model.notices import Notice
from toolgauge.model.plain_words import with_spaces

# Chats read `<...>` as links and mentions.
_LINKS = str.maketrans("<>", "\ufffd\ufffd")


def is_wanted(notice: Notice, names: tuple[str, ...] | None) -> bool:
    """Return whether it is of a named criterion; without names, of one with `notify: true`."""
    return notice.is_marked if names is None else any(fnmatchcase(notice.criterion, glob) for glob in names)


def notice_title(notice: Notice) -> str:
    """Name the criterion that failed, and where."""
    named = (("of", notice.tool), ("in a run of agent", notice.agent), ("of service", notice.service))
    where = " ".join(f"{word} {quoted(name)}" for word, name in named if name)
    failed = "fails while the run goes on" if notice.is_open else "failed"
    return f"{quoted(notice.criterion)} {where}".rstrip() + f" {failed}"


def notice_sentence(notice: Notice) -> str:
    """Write what has happened so that a person understands it without anything else."""
    return f"{notice_title(notice)}: {with_spaces(notice.explanation).translate(_LINKS)}"


def notice_json(notice: Notice, trace_url: str | None) -> JsonObject:
    """Write it as a JSON object; the time is ISO 8601 in UTC, `null` is not known."""
    names = {"service": notice.service, "agent": notice.agent, "tool": notice.tool, "criterion": notice.criterion}
    return {
        "sentence": notice_sentence(notice),
        **{key: None if name is None else fit_label(name) for key, name in names.items()},
        "explanation": notice.explanation,
        "is_open": notice.is_open,
        "at": iso_time(notice.at_ns),
        "trace_id": notice.trace_id,
        "url": next(iter(trace_links((notice.trace_id,), trace_url)), None),
    }
