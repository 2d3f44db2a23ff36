"""Lines of the log: complete, one an event, and without what others wrote."""

import json
import logging
import sys
from collections.abc import Iterator

import pytest

from toolgauge.cli.logs import LogThread, log_to_stderr
from toolgauge.config.model import Log

OURS = logging.getLogger("toolgauge.some")
THEIRS = logging.getLogger("aiohttp.server")


@pytest.fixture(autouse=True)
def log_is_as_before() -> Iterator[None]:
    root, ours = logging.getLogger(), logging.getLogger("toolgauge")
    before = (tuple(root.handlers), root.level, ours.level, logging.raiseExceptions)
    yield
    root.handlers[:] = before[0]
    root.setLevel(before[1])
    ours.setLevel(before[2])
    logging.raiseExceptions = before[3]


def at_once() -> logging.Handler:
    return logging.StreamHandler(sys.stderr)


def said(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().err.splitlines()


def test_an_event_is_one_object_with_time_level_logger_message_and_fields(capsys: pytest.CaptureFixture[str]):
    log_to_stderr(Log(format="json"), at_once())
    OURS.warning("destination %s\nis away", "b", extra={"destination": "b", "lost": 3})
    (line,) = said(capsys)
    event = json.loads(line)
    assert event.pop("time").endswith("Z")
    assert event == {
        "level": "warning",
        "logger": "toolgauge.some",
        "message": "destination b\nis away",
        "destination": "b",
        "lost": 3,
    }


def test_warnings_that_are_held_are_written_later_and_all_else_at_once(capsys: pytest.CaptureFixture[str]):
    log = LogThread()
    log.hold_warnings()
    log_to_stderr(Log(), log)
    OURS.warning("a warning")
    THEIRS.warning("another warning")
    OURS.error("an error")
    OURS.info("the addresses")
    log.write_held()
    OURS.warning("a late warning")
    assert log.end(60)
    assert [line.rpartition(": ")[2] for line in said(capsys)] == [
        "an error",
        "the addresses",
        "a warning",
        "another warning",
        "a late warning",
    ]


def test_a_text_begins_at_the_margin_once_an_event_and_holds_no_control_characters(capsys: pytest.CaptureFixture[str]):
    log_to_stderr(Log(), at_once())
    OURS.info("2 problems\n  a.yaml:1: \x1b[31mred")
    first, second = said(capsys)
    assert first.endswith("INFO toolgauge.some: 2 problems")
    assert second == "    a.yaml:1: \\x1b[31mred"


@pytest.mark.parametrize(("level", "expected"), [("debug", 4), ("info", 3), ("warning", 2), ("error", 1)])
def test_the_level_decides_and_changes_when_asked(level: str, expected: int, capsys: pytest.CaptureFixture[str]):
    log_to_stderr(Log(), at_once())
    log_to_stderr(Log.model_validate({"level": level}), at_once())
    for speak in (OURS.debug, OURS.info, OURS.warning, OURS.error):
        speak("x")
    assert len(said(capsys)) == expected


QUOTED = "sk-1234567890abcdefghij\n{'prompt': 'my card is 4111 1111 1111 1111'}"


@pytest.mark.parametrize("form", ["text", "json"])
def test_nothing_of_libraries_below_a_warning_and_nothing_of_what_exceptions_say(
    form: str, capsys: pytest.CaptureFixture[str]
):
    log_to_stderr(Log.model_validate({"level": "debug", "format": form}), at_once())
    THEIRS.debug("sent %s", QUOTED)
    THEIRS.info("sent %s", QUOTED)
    try:
        raise ValueError(QUOTED)
    except ValueError:
        THEIRS.exception("Error handling request")
    (line,) = said(capsys)
    assert "sk-1234" not in line
    assert "4111" not in line
    assert "ValueError" in line
    assert "test_logs.py" in line
