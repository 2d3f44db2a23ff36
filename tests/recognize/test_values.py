import json

from tests.rows import each_row
from toolgauge.model.content import NOT_RECORDED, Content, NotRecorded, Recorded, Unparsed
from toolgauge.model.json import Json, Value
from toolgauge.recognize import values


@each_row(
    ("text", "expected"),
    [
        ('{"city": "Paris", "days": 3}', {"city": "Paris", "days": 3}),
        ("[1, 1.0, true, null]", [1, 1.0, True, None]),
        ("null", None),
        ('"20"', "20"),
        ("20", 20),
        ('  {"a": 1}\n', {"a": 1}),
        ("{'city': 'Paris', 'dry': True, 'wind': None}", {"city": "Paris", "dry": True, "wind": None}),
        ("{'at': (1, 2), 'tags': {'b', 'a'}, 'none': set()}", {"at": [1, 2], "tags": ["a", "b"], "none": []}),
        ("{2: 'a', True: 'b', None: 'c'}", {"2": "a", "true": "b", "null": "c"}),
        ("{'raw': b'x\\x00'}", {"raw": "x\x00"}),
        ("['it\\'s', \"it's\", -1.5e3]", ["it's", "it's", -1500.0]),
        ("{'k': '\\u00f8'}", {"k": "ø"}),
        ("None", None),
        ('{"id": 123456789012345678901234567890}', {"id": 123456789012345678901234567890}),
        ('{"id": 18446744073709551616, "x": 0.5}', {"id": 18446744073709551616, "x": 0.5}),
        ('{"t": NaN, "u": -Infinity}', {"t": "NaN", "u": "-Infinity"}),
        ('{"t": 1e999, "u": "\\u00e9"}', {"t": "Infinity", "u": "é"}),
        ("{'t': 1e999}", {"t": "Infinity"}),
        ('{"half": "\\ud83d"}', {"half": "\ufffd"}),
    ],
)
def test_text_is_read_as_json_else_as_a_literal(text: str, expected: Json):
    read = values.parse_text(text)

    assert isinstance(read, Recorded)
    assert json.dumps(read.value) == json.dumps(expected)


@each_row(
    "text",
    [
        "",
        "hello",
        "007",
        "5e70431",
        "-1e999",
        '{"city": "Lima", "unit"',
        "{'a': 1 + 2}",
        "{'a': 1j}",
        "{'a': os.system}",
        "{'a': datetime.datetime(2024, 1, 1)}",
        "{'a': ...}",
        "{'a': \"\\d\"}",
        "{[]: 1}",
        "{{}}",
        "[*a]",
        "f'{x}'",
        "('a',)('b',)",
        "-" * 10_000,
        "[" + "-" * 1_000 + "1]",
        "1" * 5_000,
        "[" + "1" * 5_000 + "]",
    ],
)
def test_other_text_stays_text(text: str):
    assert values.parse_text(text) == Unparsed(text)


@each_row("bracket", ["[", '{"a":', "(", "{", "['", '["\\u0041",'])
def test_deep_nesting_is_left_unparsed(bracket: str):
    for times in (150, 10_000):
        assert isinstance(values.parse_text(bracket * times), Unparsed)


@each_row("text", ["[" * 1_000_000, "[[]," * 250_000, '"' + "x" * 1_000_000])
def test_huge_text_is_left_unparsed(text: str):
    assert values.parse_text(text) == Unparsed(text)


def test_a_large_literal_is_left_unparsed_and_large_json_is_not():
    assert isinstance(values.parse_text("['" + "x" * 100_000 + "']"), Unparsed)
    assert values.parse_text('["' + "x" * 1_000_000 + '"]') == Recorded(["x" * 1_000_000])


def test_json_that_a_limit_cut_off_is_plainly_claimed_from_json_that_is_wrong():
    whole = json.dumps({"body": "x" * 5_000})

    assert values.parse_text(whole[:1_024]) == Unparsed(whole[:1_024], "truncated")
    assert values.parse_text('{"a": "b"...') == Unparsed('{"a": "b"...', "truncated")
    assert values.parse_text(whole[:1_021]) == Unparsed(whole[:1_021], "unparsable")
    assert values.result("[see the notes for more...") == Recorded("[see the notes for more...")


def test_empty_text_beside_recorded_content_is_no_arguments():
    assert values.arguments_beside("", "found") == Recorded({})
    assert values.arguments_beside("", None) == NOT_RECORDED


@each_row("text", ['{"to": ****, "n": 1}', '"{\\"to\\": ****}"', '{"to": <EMAIL_ADDRESS>}', "{'to': [REDACTED]}"])
def test_json_that_a_mask_broke_is_redacted(text: str):
    assert values.arguments(text) == NotRecorded("redacted")
    assert values.result(text) == NotRecorded("redacted")


def test_json_that_is_broken_beside_a_mask_is_the_model_s():
    text = '{"to": "****", "n": }'

    assert values.arguments(text) == Unparsed(text)
    assert values.result(text) == Recorded(text)


@each_row("text", ["[REDACTED]", "<redacted>", "__REDACTED__", "***", "<elided>", "[Filtered]", '"[REDACTED]"'])
def test_a_value_that_was_taken_out_is_redacted(text: str):
    assert values.arguments(text) == NotRecorded("redacted")
    assert values.result(text) == NotRecorded("redacted")


@each_row(
    ("value", "expected"),
    [
        (None, NOT_RECORDED),
        (True, Recorded(True)),
        (7, Recorded(7)),
        (7.0, Recorded(7.0)),
        (b'{"a": 1}', Recorded({"a": 1})),
        ({"a": [1, b"x", float("nan")]}, Recorded({"a": [1, "x", "NaN"]})),
        (("a", 1), Recorded(["a", 1])),
        ("plain words", Unparsed("plain words")),
    ],
)
def test_content_takes_any_value(value: Value, expected: Content):
    assert values.content(value) == expected


@each_row(
    ("value", "expected"),
    [
        ({}, Recorded({})),
        ("{}", Recorded({})),
        (None, NOT_RECORDED),
        ("", NOT_RECORDED),
        ("  ", NOT_RECORDED),
        ("null", NOT_RECORDED),
        ('{"n": true}', Recorded({"n": True})),
        ('"{\\"n\\": 1}"', Recorded({"n": 1})),
        (json.dumps(json.dumps(json.dumps({"n": 1.0}))), Recorded({"n": 1.0})),
        ("{'n': 1}", Recorded({"n": 1})),
        ('{"city": "Lima", "unit"', Unparsed('{"city": "Lima", "unit"')),
        ('"{\\"city\\": ', Unparsed('"{\\"city\\": ')),
        (json.dumps('{"city": '), Unparsed('{"city": ')),
        ("[1, 2]", Unparsed("[1, 2]")),
        ([1, 2], Unparsed("[1,2]")),
        ("zoe@example.com", Unparsed("zoe@example.com")),
        (12, Unparsed("12")),
    ],
)
def test_arguments_end_as_an_object_or_stay_text(value: Value, expected: Content):
    assert values.arguments(value) == expected


@each_row(
    ("value", "expected"),
    [
        ("It is raining.", Recorded("It is raining.")),
        ("", Recorded("")),
        (None, NOT_RECORDED),
        ("null", Recorded(None)),
        ('{"temp": 18.25}', Recorded({"temp": 18.25})),
        ("{'temp': 18.25}", Recorded({"temp": 18.25})),
        ('"20"', Recorded("20")),
        ('"{\\"temp\\": 18.25}"', Recorded({"temp": 18.25})),
        ('"[not json"', Recorded("[not json")),
        ([{"text": "a"}], Recorded([{"text": "a"}])),
    ],
)
def test_a_result_may_be_plain_text(value: Value, expected: Content):
    assert values.result(value) == expected


def test_a_structured_value_that_is_too_deep_is_left_unparsed():
    value: Value = 1
    for _ in range(150):
        value = {"a": value}

    assert isinstance(values.content(value), Unparsed)
    assert isinstance(values.arguments(value), Unparsed)
    assert values.dump(values.plain(value)).endswith('"..."' + "}" * 100)


def test_plain_keeps_booleans_integers_floats_and_text_apart():
    value = values.plain({"a": True, "b": 1, "c": 1.0, "d": "1", "e": b"\xff1", "f": [float("inf")]})

    assert json.dumps(value) == json.dumps({"a": True, "b": 1, "c": 1.0, "d": "1", "e": "\ufffd1", "f": ["Infinity"]})


def test_an_attribute_for_each_part_makes_an_object_in_which_json_text_is_opened():
    parts: dict[str, Value] = {
        "in.city": "Ulm",
        "in.stops.0": "Graz",
        "in.stops.1": "Linz",
        "in.who": '{"age": 7}',
        "in.note": "[broken",
        "in.days": 2,
        "other.city": "Rome",
    }
    assert values.nested(parts, "in.") == {
        "city": "Ulm",
        "stops": ["Graz", "Linz"],
        "who": {"age": 7},
        "note": "[broken",
        "days": 2,
    }
