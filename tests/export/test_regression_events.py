"""What people and programs read about a regression."""

import json

from msgspec.structs import replace
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, SeverityNumber

from tests.export.scorecards import emitter
from tests.rows import each_row
from toolgauge.export.regression_events import cause_sentences, regression_json, sentence
from toolgauge.export.results import EmitSettings
from toolgauge.model.regressions import Cause, Change, Regression, Stream

SECOND = 1_000_000_000
# 2027-01-15 14:02:07.5 UTC.
ONSET_NS = 1_800_021_727 * SECOND + SECOND // 2
AT_NS = ONSET_NS + 40 * 60 * SECOND
BEFORE, AFTER, NEWER = "b" * 32, "a" * 32, "c" * 32
URL = "https://traces.example/trace/{trace_id}?tab=spans"

STREAM = Stream(
    service="shop",
    environment="production",
    agent="orders",
    tool="find_order",
    criterion="default.tool_success",
    revision="9f86d081884c",
    level="call",
)
CAUSE = Cause(
    changes=(Change(property="service.version", of=None, before="1.0", after="1.1"),),
    since_ns=ONSET_NS - 60 * SECOND,
    conversations=38,
    of=41,
    mean=0.62,
    others=0.96,
    evidence=4.5,
)
CAUSE_WORDS = (
    "`service.version` changed from `1.0` to `1.1` at 14:01 UTC; 38 of 41 conversations since have `1.1`: "
    "mean 0.62, the others 0.96"
)
BEGAN = Regression(
    phase="began",
    stream=STREAM,
    incident="i-1",
    at_ns=AT_NS,
    onset_ns=ONSET_NS,
    observations=41,
    baseline=0.97,
    current=0.84,
    interval=(0.72, 0.93),
    evidence=1.0,
    causes=(CAUSE,),
    properties=12,
    before=(BEFORE,),
    after=(NEWER, AFTER),
)
ENDED = replace(BEGAN, phase="ended", current=0.961, observations=163, at_ns=ONSET_NS + 192 * 60 * SECOND)


UPDATED = replace(BEGAN, phase="updated", current=0.81, observations=64, at_ns=AT_NS + 600 * SECOND)


def of(**names: str | None) -> Regression:
    """Make a drop of a stream with these names."""
    return replace(BEGAN, stream=replace(STREAM, **names))


def lasted(seconds: int) -> Regression:
    return replace(ENDED, at_ns=ONSET_NS + seconds * SECOND)


def record(regression: Regression, trace_url: str | None = URL) -> LogRecord:
    (outgoing,) = emitter(EmitSettings(trace_url=trace_url)).regressions([regression])
    assert (outgoing.signal, outgoing.spans, outgoing.own) == ("logs", 0, True)
    request = ExportLogsServiceRequest.FromString(outgoing.body)
    (group,) = request.resource_logs
    assert {each.key: each.value.string_value for each in group.resource.attributes}["service.name"] == "toolgauge"
    (scope,) = group.scope_logs
    (found,) = scope.log_records
    return found


def attributes(found: LogRecord) -> dict[str, object]:
    return {each.key: _plain(each.value) for each in found.attributes}


def _plain(value: AnyValue) -> object:
    if value.HasField("array_value"):
        return [each.string_value for each in value.array_value.values]
    return next(held for _, held in value.ListFields())


@each_row(
    ("regression", "part"),
    [
        (BEGAN, "of `find_order` fell from 0.97 to 0.84 with version 1.1, 41 conversations, since 14:02 UTC"),
        (replace(BEGAN, causes=(), observations=1), "from 0.97 to 0.84, 1 conversation, since 14:02 UTC"),
        (of(tool=None), "`default.tool_success` of all tools of agent `orders` fell"),
        (of(tool=None, agent=None), "`default.tool_success` of all tools of service `shop` fell"),
        (of(tool=None, agent=None, service=None), "`default.tool_success` of all tools fell"),
        (of(tool=None, level="trajectory"), "`default.tool_success` of agent `orders` fell"),
        (of(tool=None, agent=None, level="trajectory"), "`default.tool_success` of service `shop` fell"),
        (of(tool=None, agent=None, service=None, level="trajectory"), "`default.tool_success` fell"),
        (replace(BEGAN, baseline=0.996, current=0.99), "fell from 0.996 to 0.990 "),
        (replace(BEGAN, baseline=0.9991, current=0.9987), "fell from 0.9991 to 0.9987 "),
        (replace(BEGAN, at_ns=ONSET_NS + 86_400 * SECOND), "since 2027-01-15 14:02 UTC"),
        (ENDED, "`default.tool_success` of `find_order` is back at 0.96 after 3 h 12 min, 163 conversations"),
        (lasted(-5), " after less than a minute, "),
        (lasted(59), " after less than a minute, "),
        (lasted(60), " after 1 min, "),
        (lasted(200_000), " after 2 days, "),
        (replace(BEGAN, phase="ended", acknowledged=True), "is at 0.84 and no longer compared with 0.97"),
    ],
)
def test_sentence_names_the_stream_the_drop_and_its_time(regression: Regression, part: str):
    assert part in sentence(regression)


def test_another_cause_of_a_lasting_drop_is_news_and_no_second_alarm():
    assert "is still at 0.81 instead of 0.97 with version 1.1, 64 conversations" in sentence(UPDATED)
    found = record(UPDATED)
    assert found.severity_text == record(ENDED).severity_text == "INFO"
    assert attributes(found)["toolgauge.regression.phase"] == "updated"
    assert attributes(found)["toolgauge.regression.cause.summary"] == [CAUSE_WORDS]
    later = record(replace(UPDATED, observations=128))
    assert len({attributes(each)["log.record.uid"] for each in (record(BEGAN), found, later)}) == 3


MODEL = Change(property="gen_ai.response.model", of=None, before="A", after="B")
ERRORS = Change(property="toolgauge.tool.errors", of="find_order", before="none", after="rate_limited")
SCHEMAS = tuple(Change(property="toolgauge.tool.schema", of=f"t{n}", before="A", after="B") for n in range(20))
SCHEMA_WORDS = ", ".join(f"`toolgauge.tool.schema` of `t{n}` (`A` to `B`)" for n in range(4))


@each_row(
    ("cause", "start"),
    [
        (CAUSE, CAUSE_WORDS),
        (
            replace(CAUSE, changes=(*CAUSE.changes, MODEL)),
            "`service.version` (`1.0` to `1.1`) and `gen_ai.response.model` (`A` to `B`) changed together at 14:01 UTC; "
            "38 of 41 conversations since have the new values: mean 0.62",
        ),
        (replace(CAUSE, changes=SCHEMAS), f"{SCHEMA_WORDS} and 16 more changed together at 14:01 UTC; "),
        (
            replace(CAUSE, changes=(ERRORS,), since_ns=None),
            "`toolgauge.tool.errors` of `find_order`: `rate_limited` became more frequent; "
            "38 of 41 conversations since the drop have `rate_limited`",
        ),
    ],
)
def test_a_cause_is_one_sentence(cause: Cause, start: str):
    (text,) = cause_sentences(replace(BEGAN, causes=(cause,)))
    assert text.startswith(start)


def test_that_nothing_recorded_changed_is_said():
    nothing = ("none of the recorded properties changed with it",)
    assert cause_sentences(replace(BEGAN, causes=())) == nothing
    assert attributes(record(replace(BEGAN, causes=())))["toolgauge.regression.cause.summary"] == [*nothing]
    assert cause_sentences(replace(BEGAN, causes=(), properties=0)) == ()


def test_hostile_names_stay_inside_their_quotes():
    hostile = replace(STREAM, tool="x` is fine <!channel>\n\u202eevil\ud800" + "y" * 5000)
    change = replace(CAUSE.changes[0], after="1.1, all is well\n")
    text = sentence(replace(BEGAN, stream=hostile, causes=(replace(CAUSE, changes=(change,)),)))
    quoted = "x\ufffd is fine \ufffd!channel\ufffd\ufffd\ufffdevil\ufffd" + "y" * 100
    assert f"of `{quoted}` fell" in text
    assert "with version `1.1, all is well\ufffd`, 41" in text
    assert len(text) < 400


def test_a_drop_as_an_event():
    found = record(BEGAN)
    assert found.event_name == "toolgauge.regression"
    assert found.time_unix_nano == found.observed_time_unix_nano == AT_NS
    assert (found.severity_number, found.severity_text) == (SeverityNumber.SEVERITY_NUMBER_WARN, "WARN")
    assert found.trace_id.hex() == NEWER
    assert found.body.string_value == sentence(BEGAN)
    assert attributes(found) == {
        "toolgauge.service": "shop",
        "deployment.environment.name": "production",
        "gen_ai.agent.name": "orders",
        "gen_ai.tool.name": "find_order",
        "gen_ai.evaluation.name": "default.tool_success",
        "toolgauge.criterion.revision": "9f86d081884c",
        "toolgauge.level": "call",
        "toolgauge.regression.phase": "began",
        "toolgauge.regression.acknowledged": False,
        "toolgauge.regression.incident": "i-1",
        "toolgauge.regression.baseline": 0.97,
        "toolgauge.regression.current": 0.84,
        "toolgauge.regression.interval.low": 0.72,
        "toolgauge.regression.interval.high": 0.93,
        "toolgauge.regression.evidence": 1.0,
        "toolgauge.regression.observations": 41,
        "toolgauge.regression.onset_time_unix_nano": ONSET_NS,
        "toolgauge.regression.cause.summary": [CAUSE_WORDS],
        "toolgauge.regression.cause.properties": ["service.version"],
        "toolgauge.regression.cause.old_values": ["1.0"],
        "toolgauge.regression.cause.new_values": ["1.1"],
        "toolgauge.regression.cause.since_time_unix_nano": ONSET_NS - 60 * SECOND,
        "toolgauge.regression.cause.evidence": 4.5,
        "toolgauge.regression.old_version": "1.0",
        "toolgauge.regression.new_version": "1.1",
        "toolgauge.regression.new_version.since_time_unix_nano": ONSET_NS - 60 * SECOND,
        "toolgauge.regression.traces.before": [BEFORE],
        "toolgauge.regression.traces.after": [NEWER, AFTER],
        "toolgauge.regression.links.before": [f"https://traces.example/trace/{BEFORE}?tab=spans"],
        "toolgauge.regression.links.after": [
            f"https://traces.example/trace/{NEWER}?tab=spans",
            f"https://traces.example/trace/{AFTER}?tab=spans",
        ],
        # Another process that notices the same drop writes the same id.
        "log.record.uid": "514ff6fd5e89cd621e8ae38765131a2f",
    }


def test_a_regression_that_is_written_later_has_the_same_id():
    later = replace(BEGAN, at_ns=AT_NS + SECOND, current=0.83, observations=44, after=(AFTER,))
    assert uid(later) == uid(BEGAN)


def test_each_regression_and_its_end_have_ids_of_their_own():
    others = (
        ENDED,
        replace(ENDED, acknowledged=True),
        replace(BEGAN, incident="i-2"),
        replace(BEGAN, onset_ns=ONSET_NS + 1),
        replace(BEGAN, stream=replace(STREAM, agent=None)),
        replace(BEGAN, stream=replace(STREAM, agent="\ud800")),
        replace(BEGAN, stream=replace(STREAM, revision="000000000000")),
    )
    assert len({uid(BEGAN), *map(uid, others)}) == 8


def uid(regression: Regression) -> object:
    return attributes(record(regression))["log.record.uid"]


def test_what_is_not_known_is_left_out_of_the_event():
    nameless = replace(STREAM, service=None, environment=None, agent=None, tool=None)
    bare = replace(BEGAN, stream=nameless, causes=(), properties=0, before=(), after=("no id",))
    found = record(bare)
    assert found.trace_id == b""
    assert set(attributes(found)) == {
        "gen_ai.evaluation.name",
        "toolgauge.criterion.revision",
        "toolgauge.level",
        "log.record.uid",
        *(
            f"toolgauge.regression.{name}"
            for name in (
                *("phase", "acknowledged", "incident", "baseline", "current", "interval.low", "interval.high"),
                *("evidence", "observations", "onset_time_unix_nano"),
            )
        ),
    }


def test_a_regression_as_json():
    written = regression_json(BEGAN, URL)
    assert json.loads(json.dumps(written)) == {
        "phase": "began",
        "acknowledged": False,
        "sentence": sentence(BEGAN),
        "stream": {
            "service": "shop",
            "environment": "production",
            "agent": "orders",
            "tool": "find_order",
            "criterion": "default.tool_success",
            "revision": "9f86d081884c",
            "level": "call",
        },
        "incident": "i-1",
        "at": "2027-01-15T14:42:07.500Z",
        "onset": "2027-01-15T14:02:07.500Z",
        "baseline": 0.97,
        "current": 0.84,
        "interval": [0.72, 0.93],
        "evidence": 1.0,
        "observations": 41,
        "causes": [
            {
                "sentence": CAUSE_WORDS,
                "changes": [{"property": "service.version", "of": None, "old": "1.0", "new": "1.1"}],
                "since": "2027-01-15T14:01:07.500Z",
                "conversations": 38,
                "of": 41,
                "mean": 0.62,
                "others": 0.96,
                "evidence": 4.5,
            }
        ],
        "old_version": "1.0",
        "new_version": "1.1",
        "new_version_since": "2027-01-15T14:01:07.500Z",
        "traces_before": [{"trace_id": BEFORE, "url": f"https://traces.example/trace/{BEFORE}?tab=spans"}],
        "traces_after": [
            {"trace_id": NEWER, "url": f"https://traces.example/trace/{NEWER}?tab=spans"},
            {"trace_id": AFTER, "url": f"https://traces.example/trace/{AFTER}?tab=spans"},
        ],
    }


def test_json_of_hostile_and_unknown_values_can_be_written():
    odd = replace(
        BEGAN,
        stream=replace(STREAM, service=None, tool="\ud800"),
        at_ns=-1,
        onset_ns=2**70,
        causes=(replace(CAUSE, since_ns=None),),
        after=("../../x", AFTER),
    )
    written = regression_json(odd, None)
    json.dumps(written).encode()
    assert (written["at"], written["onset"]) == ("1970-01-01T00:00:00.000Z", "9999-12-31T23:59:59.000Z")
    assert written["traces_after"] == [{"trace_id": AFTER, "url": None}]
    assert written["new_version_since"] is None
