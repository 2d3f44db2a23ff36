import json
from collections.abc import Sequence

from hypothesis import example, given
from hypothesis import strategies as st

from toolgauge.model.json import Json
from toolgauge.recognize import conventions
from toolgauge.recognize.dialect import HistoryReader
from toolgauge.recognize.messages import read_messages

# Short histories are not remembered.
OPENING: Json = {"role": "user", "parts": [{"type": "text", "content": "Please. " * 200}]}

texts = st.sampled_from(["hi", "a, b", "[x]", "é\U0001f600", "", "[REDACTED]", "]", '"', "\\", "\ud800"])
results: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts | st.just('{"a": 1}'),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
ids = st.sampled_from(["call_1", "call_2", ""])
roles = st.sampled_from(["user", "assistant", "tool", "system"])


def text_part(text: str) -> Json:
    return {"type": "text", "content": text}


def call_part(name: str) -> Json:
    return {"type": "tool_call", "id": "call_1", "name": name, "arguments": {}}


def answer_part(ref: str, result: Json) -> Json:
    return {"type": "tool_call_response", "id": ref, "response": result}


def of_parts(role: str, parts: list[Json]) -> Json:
    return {"role": role, "parts": parts}


def of_text(role: str, text: str) -> Json:
    return {"role": role, "content": text}


def tool_message(ref: str, result: Json) -> Json:
    return {"role": "tool", "tool_call_id": ref, "content": result}


parts: st.SearchStrategy[Json] = st.one_of(
    st.builds(text_part, texts), st.builds(call_part, texts), st.builds(answer_part, ids, results), results
)
messages: st.SearchStrategy[Json] = st.one_of(
    st.builds(of_parts, roles, st.lists(parts, max_size=3)),
    st.builds(of_text, roles, texts),
    st.builds(tool_message, ids, results),
    results,
)
styles = st.sampled_from([(None, None), (None, (",", ":")), (None, (" , ", " : ")), (2, None)])
endings = st.sampled_from(
    ["]", "]", "]", "", ",]", ", ]", "]]", ",1", "}", " ]", "\n]", "\u00a0]", ",\u00a0{}]", ",NaN]", "2]", ",{}] x", ",[]]"]
)  # fmt: skip
around = st.sampled_from([("", ""), ("", ""), (" ", "\n"), ("\u00a0", ""), ("x", "")])
steps = st.lists(st.tuples(st.integers(0, 12), styles, endings, around, st.sampled_from(["a", "b"])), max_size=12)

Step = tuple[int, tuple[int | None, tuple[str, str] | None], str, tuple[str, str], str]
PLAIN: Step = (2, (None, None), "]", ("", ""), "a")
# `null` is no Python literal, as which a list with a comma too many is read.
ASKED: list[Json] = [{"role": "user", "content": "one"}, None]


def text_of(history: Sequence[Json], step: Step) -> str:
    length, (indent, separators), ending, (before, after), _ = step
    written = json.dumps(
        [OPENING, *history[:length]], indent=indent, separators=separators, ensure_ascii=length % 2 == 0
    )
    return before + written[:-1] + ending + after


@given(st.lists(messages, max_size=12), steps)
@example(ASKED, [PLAIN, (2, (None, None), ",]", ("", ""), "a")])
@example(ASKED, [PLAIN, (2, (None, None), "x{}]", ("", ""), "a")])
@example(ASKED, [PLAIN, (2, (None, None), "\u00a0]", ("", ""), "a")])
@example(ASKED, [PLAIN, (2, (None, None), ",\u00a0{}]", ("", ""), "a")])
def test_a_history_that_is_read_in_pieces_is_what_it_is_as_a_whole(history: list[Json], steps: list[Step]):
    reader = HistoryReader()
    for step in steps:
        text = text_of(history, step)

        # As text: there `true`, `1` and `1.0` differ.
        assert repr(reader.received(text, ("trace", step[4]))) == repr(
            conventions.received(read_messages(text, "user"))
        )
