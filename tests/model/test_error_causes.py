"""The cause of an error stays where its text is cut."""

from tests.rows import each_row
from toolgauge.model.plain_words import with_cause

FRAMES = "".join(f'  File "/app/step{n}.py", line {n}, in step{n}\n    return next(call)\n' for n in range(20))
TRACEBACK = f"Traceback (most recent call last):\n{FRAMES}"
JAVA = "java.lang.RuntimeException: tool failed\n" + "\tat shop.Tools.run(Tools.java:7)\n" * 20
CASES = {
    "the last line of a traceback": (f"{TRACEBACK}shop.CardDeclined: the card was declined", "shop.CardDeclined: the card was declined"),
    "a message of several lines": (f"{TRACEBACK}ValueError: 2 errors\n  nights: too many", "ValueError: 2 errors\n  nights: too many"),
    "the last of two tracebacks": (
        f"{TRACEBACK}KeyError: 'id'\n\nDuring handling of the above exception, another exception occurred:\n\n{TRACEBACK}"
        "ToolError: no such order",
        "ToolError: no such order",
    ),
    "caused by in a sentence": (f"Error: {'step failed, ' * 20}caused by a lost connection {'retried ' * 20}", "caused by a lost connection"),
    "caused by in Java": (f"{JAVA}Caused by: java.io.IOException: disk full\n\t... 12 more", "Caused by: java.io.IOException: disk full"),
    "a cause in JavaScript": (
        "Error: tool failed\n" + "    at run (tools.js:7:1)\n" * 20 + "  [cause]: Error: socket hang up",
        "[cause]: Error: socket hang up",
    ),
    "a long prefix of wrappers": ("ToolInvocationError: " * 30 + "connection refused", "connection refused"),
    "the end of a sentence": (f"the tool was asked {'again and ' * 30}the card was declined", "the card was declined"),
}  # fmt: skip


@each_row(("text", "cause"), CASES.values(), ids=CASES)
def test_a_long_error_keeps_its_cause(text: str, cause: str):
    shown = with_cause(text, 80)
    assert cause in shown
    assert len(shown) <= 80


def test_a_short_error_is_shown_whole():
    text = "Traceback (most recent call last):\nValueError: no such order"
    assert with_cause(text, 80) == text


@each_row("text", [*(text for text, _ in CASES.values()), "x" * 500, "a: " * 200, "because " * 99])
def test_no_text_is_longer_than_the_room(text: str):
    assert all(len(with_cause(text, length)) <= length for length in range(100))
