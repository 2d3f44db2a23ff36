import pytest

from tests.rows import each_row
from toolgauge.model.json import Json
from toolgauge.model.literals import parse_fields, parse_repr


@each_row(
    ("text", "expected"),
    [
        ("Call()", {"__class__": "Call"}),
        ("Call(name='x', args={'a': [1, -2.5, None, True]})", {"__class__": "Call", "name": "x", "args": {"a": [1, -2.5, None, True]}}),
        ("a.B('x', 2, k=C(d='e'))", {"__class__": "a.B", "0": "x", "1": 2, "k": {"__class__": "C", "d": "e"}}),
        ("A(role=<Role.USER: 'user'>, level=<Level.TOP: 3>)", {"__class__": "A", "role": "user", "level": 3}),
        ("A(tool=<function f at 0x7f>, tz=utc)", {"__class__": "A", "tool": "<function f at 0x7f>", "tz": "utc"}),
        # Text that looks like a repr is text.
        ("A(text='B(c=1), <D.E: 2>')", {"__class__": "A", "text": "B(c=1), <D.E: 2>"}),
        ("A(text=\"it's\", more='\\'\\n')", {"__class__": "A", "text": "it's", "more": "'\n"}),
        ("A(b=(1, 2), c=[])", {"__class__": "A", "b": [1, 2], "c": []}),
        ("{'a': A(1), 'b': 2}", {"a": {"__class__": "A", "0": 1}, "b": 2}),
    ],
)  # fmt: skip
def test_repr_becomes_an_object_of_its_arguments(text: str, expected: Json):
    assert parse_repr(text) == expected


@each_row(
    "text",
    ["", "A(", "A(b=1", "A)", "A(b=1+1)", "A(b=c + d)", "x=1", "A(=1)", "A(b=1j)", "A(b='", "lambda: 1", "(" * 500, "A(" * 500,
     "x" * 200_000, "A(b=\x00)", "A(b=`c`)", "{A()}"],
)  # fmt: skip
def test_anything_else_is_refused(text: str):
    with pytest.raises(ValueError, match=r"."):
        parse_repr(text)


@each_row("text", ["", "'a'", "plain text", "a=", "a='b", "a=1 'b'", "a=" * 60_000])
def test_anything_else_has_no_fields(text: str):
    with pytest.raises(ValueError, match=r"."):
        parse_fields(text)
