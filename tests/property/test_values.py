import json
import math
from collections.abc import Mapping

from hypothesis import example, given
from hypothesis import strategies as st

from toolgauge.model.content import NotRecorded, Recorded, Unparsed
from toolgauge.model.json import Json, Value
from toolgauge.recognize import values

json_values: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=25,
)
attribute_values: st.SearchStrategy[Value] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=25,
)
broken_text = st.text(alphabet="[]{}()'\",:\\ \n0123456789eE.+-_aNxuTruFlsJbIinfty", max_size=80) | st.text()


@given(json_values)
def test_json_text_is_read_as_what_was_written(value: Json):
    read = values.parse_text(json.dumps(value))

    assert isinstance(read, Recorded)
    # As text: there `true`, `1` and `1.0` differ.
    assert json.dumps(read.value, sort_keys=True) == json.dumps(value, sort_keys=True)


@given(st.dictionaries(st.text(), json_values, max_size=5), st.integers(0, 3))
def test_arguments_survive_being_encoded_again_and_again(value: dict[str, Json], times: int):
    text = json.dumps(value)
    for _ in range(times):
        text = json.dumps(text)

    assert values.arguments(text) == Recorded(value)


@given(st.dictionaries(st.text(), json_values, min_size=1, max_size=5))
def test_a_python_repr_is_read_as_the_value(value: dict[str, Json]):
    read = values.parse_text(repr(value))

    assert isinstance(read, Recorded)
    assert json.dumps(read.value, sort_keys=True) == json.dumps(value, sort_keys=True)


@given(broken_text)
@example("{'a': '\\ud800'}")
@example('{"\\ud800": NaN}')
@example("{'a': b'\\xff', 1e999: -0}")
def test_any_text_is_read_without_raising_and_can_be_sent_on(text: str):
    for read in (values.parse_text(text), values.arguments(text), values.result(text)):
        assert_sendable(read)


@given(attribute_values)
def test_any_value_is_read_without_raising_and_can_be_sent_on(value: Value):
    read = values.arguments(value)
    assert isinstance(read, NotRecorded | Unparsed) or isinstance(read.value, Mapping)
    for one in (read, values.content(value), values.result(value), Recorded(values.plain(value))):
        assert_sendable(one)


@given(st.from_regex(r"-?(0|[1-9][0-9]{0,400})(\.[0-9]{1,30})?([eE][-+]?[0-9]{1,3})?", fullmatch=True))
@example("18446744073709551616")
@example("-9223372036854775809")
@example("2.4e-324")
@example("1e999")
def test_numbers_of_any_size_are_read_as_python_reads_them(number: str):
    expected = json.loads(number)
    alone: Recorded | Unparsed = Recorded(expected)
    if isinstance(expected, float) and math.isinf(expected):
        expected = "Infinity" if expected > 0 else "-Infinity"
        # As likely a name of a commit.
        alone = Unparsed(number)

    assert repr(values.parse_text(number)) == repr(alone)
    assert repr(values.parse_text(f'{{"id": [{number}]}}')) == repr(Recorded({"id": [expected]}))


@given(st.lists(st.sampled_from(["\\ud83d", "\\ude00", "\\u0041", "\\n", "a", "ø", "😀"]), max_size=8))
def test_surrogates_become_a_character_in_pairs_and_are_replaced_alone(pieces: list[str]):
    text = json.dumps("".join(pieces), ensure_ascii=False).replace("\\\\", "\\")
    expected = "".join("\ufffd" if "\ud800" <= character <= "\udfff" else character for character in json.loads(text))

    assert values.parse_text(text) == Recorded(expected)
    assert values.parse_text(f"{{{text}: {text}}}") == Recorded({expected: expected})


def assert_sendable(read: Recorded | Unparsed | NotRecorded):
    match read:
        case Recorded(value):
            json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
            values.dump(value).encode()
        case Unparsed(text):
            assert isinstance(text, str)
        case NotRecorded():
            pass
