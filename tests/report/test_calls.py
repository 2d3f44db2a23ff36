"""A trajectory as people read it."""

from toolgauge.export.redact import Redactor
from toolgauge.model.content import NOT_RECORDED, NotRecorded, Recorded, Unparsed
from toolgauge.model.json import Json
from toolgauge.model.observations import CallError
from toolgauge.model.trajectory import Trajectory
from toolgauge.report.terminal import PLAIN, Style
from toolgauge.report.text import TextWriter
from toolgauge.testing.samples import TRACE_ID, sample_call, sample_trajectory


def described(trajectory: Trajectory, style: Style = PLAIN) -> list[str]:
    return list(TextWriter(Redactor(show_values=False), style=style, shows_values=True).trajectory(trajectory))


def test_a_call_shows_turn_arguments_state_agent_and_result():
    call = sample_call(0, arguments=Recorded({"order_id": "A-17", "amount": 20}), result=Recorded({"ok": True}))
    assert described(sample_trajectory(call)) == [
        f"trace {TRACE_ID[:8]} of shop (closed: run_ended)",
        "  agents: support",
        '  turn 1  find_order(order_id="A-17", amount=20)  executed  [support]',
        '          result: {"ok": true}',
    ]


def test_what_is_not_observable_says_why():
    calls = (
        sample_call(0, arguments=NOT_RECORDED),
        sample_call(1, arguments=NotRecorded("redacted"), result=Recorded(1)),
        sample_call(2, arguments=Unparsed('{"a":'), result=Recorded(1)),
        sample_call(3, arguments=Unparsed('{"a":', "truncated"), state="requested_only"),
    )
    lines = described(sample_trajectory(*calls, tools=None))
    assert [line.strip() for line in lines if "not observable" in line] == [
        "not observable: arguments (the producer did not record it); result (the producer did not record it)",
        "not observable: arguments (the producer redacted it)",
        "not observable: arguments (it is no valid JSON and stays text)",
        "not observable: arguments (it was cut off on the way); result (no execution and no answer was seen)",
        "not observable: tools on offer (not recorded)",
    ]
    assert lines[2].startswith("  turn 1  find_order(?)  executed")


def test_hostile_text_neither_steers_the_terminal_nor_fills_it():
    deep: Json = "x"
    for _ in range(50):
        deep = [deep, deep]
    hostile = "\x1b[2J\u202e" + "x" * 1_000_000
    call = sample_call(
        0,
        hostile,
        arguments=Recorded({hostile: hostile, "deep": deep, **{str(number): number for number in range(10_000)}}),
        error=CallError(kind=hostile, message=hostile),
    )
    other = sample_call(1, result=Recorded([*[hostile] * 1000]), arguments=Unparsed(hostile))
    lines = described(sample_trajectory(call, other))
    assert all(line.isprintable() for line in lines)
    assert max(len(line) for line in lines) < 600


def test_secrets_are_masked_wherever_they_stand():
    mail, key = "zoe@example.com", "sk-abcdefghijklmnopqrstuvwxyz"
    call = sample_call(
        0,
        arguments=Recorded({"to": mail, "password": "hunter2", "nested": {"api_key": "hunter3", "cc": [mail]}}),
        error=CallError(kind="ValueError", message=f"{mail} is unknown to {key}"),
    )
    other = sample_call(1, arguments=Unparsed(f'{{"to": "{mail}"'), result=Recorded("x" * 230 + f" {key}"))
    lines = "\n".join(described(sample_trajectory(call, other)))
    assert 'to="[email]", password=[masked], nested={"api_key": [masked], "cc": ["[email]"]}' in lines
    assert "ValueError: [email] is unknown to [key]" in lines
    assert [each for each in (mail, "sk-", "hunter") if each in lines] == []
