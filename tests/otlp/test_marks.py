"""Byte patterns against a test of decoded keys."""

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.otlp import stock
from tests.rows import each_row
from toolgauge.otlp.marks import Marks, log_marks, span_marks

MARKS = ("gen_ai.", "openinference.", "llm.", "tool.name", "traceloop.", "ai.", "haystack.", "uipath", "gcp.vertex.")
WANTED = ("session.id", "eval.case.id", "k" * 127, "k" * 128, "k" * 300)


def is_found(marks: Marks, raw: bytes) -> bool:
    found = marks.found_in(raw)
    assert marks.found_in_request(raw, [raw]) is found
    return found


def test_filter_equals_the_exact_key_test_for_all_recorded_spans():
    marks = span_marks(MARKS, WANTED)
    answers: set[bool] = set()
    for raw in stock.recorded_spans():
        keys = [entry.key for entry in Span.FromString(raw).attributes]
        expected = any(key.startswith(MARKS) or key in WANTED for key in keys)
        assert is_found(marks, raw) is expected
        answers.add(expected)
    assert answers == {True, False}


def test_filter_equals_the_exact_key_test_for_all_recorded_log_records():
    marks = log_marks(("gen_ai.",), ("session.id",))
    checked = 0
    for path in stock.recorded_logs():
        for raw in stock.raw_items(path.read_bytes()):
            record = LogRecord.FromString(raw)
            attributes = stock.plain_attributes(record.attributes)
            names = [record.event_name, str(attributes.get("event.name", ""))]
            expected = any(key.startswith("gen_ai.") for key in [*attributes, *names]) or "session.id" in attributes
            assert is_found(marks, raw) is expected
            checked += 1
    assert checked > 50


@each_row("key", WANTED)
def test_wanted_key_is_found_and_a_longer_or_shorter_one_is_not(key: str):
    marks = span_marks((), WANTED)
    assert is_found(marks, stock.span(stock.key_value(key)).SerializeToString())
    assert not is_found(marks, stock.span(stock.key_value(key + ".x")).SerializeToString())
    assert not is_found(marks, stock.span(stock.key_value(key[:-2])).SerializeToString())


def test_records_that_are_written_back_to_front_are_seen():
    spans, logs = span_marks(MARKS, WANTED), log_marks(("gen_ai.",), ("session.id",))
    missed = [raw for raw in stock.recorded_spans() if is_found(spans, raw) and not is_found(spans, swapped(raw, Span))]
    for path in stock.recorded_logs():
        records = stock.raw_items(path.read_bytes())
        missed += [raw for raw in records if is_found(logs, raw) and not is_found(logs, swapped(raw, LogRecord))]
    assert missed == []


def swapped(raw: bytes, kind: type[Span] | type[LogRecord]) -> bytes:
    return stock.back_to_front(kind.FromString(raw))


def test_padded_tag_and_value_in_front_of_the_key_are_not_seen_in_a_span_that_begins_with_its_ids():
    ids = stock.span().SerializeToString()
    entry = stock.key_value("gen_ai.a").SerializeToString()
    padded = ids + b"\xca\x00" + stock.varint(len(entry)) + entry
    assert "gen_ai.a" in stock.plain_attributes(Span.FromString(padded).attributes)
    assert not is_found(span_marks(MARKS), padded)
    twisted = ids + stock.field(
        9, stock.field(2, AnyValue(int_value=1).SerializeToString()) + stock.field(1, b"gen_ai.a")
    )
    assert stock.plain_attributes(Span.FromString(twisted).attributes) == {"gen_ai.a": 1}
    assert not is_found(span_marks(MARKS), twisted)


def test_dots_and_other_signs_in_marks_are_literal():
    marks = span_marks(["a.b", "x[y", "größe."], ["c(d", "名前"])
    for key in ("aXb", "c(dd"):
        assert not is_found(marks, stock.span(stock.key_value(key, "J a.b c(d")).SerializeToString())
    for key in ("a.b", "x[y.z", "c(d", "größe.a", "名前"):
        assert is_found(marks, stock.span(stock.key_value(key)).SerializeToString())


OBJECTS = ('{"role":',)


@each_row(
    ("key", "text", "found"),
    [
        ("judgment.span_kind", "tool", True),
        ("span.type", "agentic.tool.invocation", True),
        ("app.tool.name", "find", True),
        ("acme.llm.model", "m", True),
        ("acme.kind", "client", False),
        ("http.tool", "x", False),
        ("db.tool.kind", "tool", False),
    ],
)
def test_a_word_counts_anywhere_in_a_key_and_in_the_value_of_a_kind(key: str, text: str, found: bool):  # noqa: FBT001
    marks = span_marks(("gen_ai.",), (), OBJECTS, ("tool", "llm"))
    raw = stock.span(stock.key_value(key, text)).SerializeToString()
    assert is_found(marks, raw) is found
    assert marks.found_in_request(raw * 2, [raw]) is found


def test_event_name_is_found_as_field_and_as_attribute():
    marks = log_marks(["gen_ai."])
    attribute = KeyValue(key="event.name", value=AnyValue(string_value="gen_ai.choice"))
    assert is_found(marks, LogRecord(event_name="gen_ai.choice").SerializeToString())
    assert is_found(marks, LogRecord(attributes=[attribute]).SerializeToString())
    assert not is_found(marks, LogRecord(event_name="http.request").SerializeToString())
    other = LogRecord(time_unix_nano=1, attributes=[stock.key_value("other.name", "gen_ai.choice")])
    assert not is_found(marks, other.SerializeToString())


def test_text_full_of_capital_j_and_of_multibyte_characters_is_searched_in_linear_time():
    # Backtracking without a bound would need minutes for these.
    for text in ("J" * 100_000, "J漢字" * 15_000, "2" * 100_000):
        raw = stock.span(stock.key_value("note", text)).SerializeToString()
        assert not is_found(span_marks(MARKS, WANTED), raw)
        assert not is_found(log_marks(MARKS, WANTED), raw)
