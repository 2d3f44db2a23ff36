"""UiPath: uipath-core 0.5.33 as recorded (`tests/corpus/uipath`), and the minimal form of its documents."""

from tests.recognize.support import observations, span
from tests.rows import each_row
from toolgauge.dialects.openinference import UiPath
from toolgauge.model.content import Recorded
from toolgauge.model.json import Value
from toolgauge.model.observations import CallExecuted, Observation

SCOPE = "uipath.core.tracing.decorators"


def read(scope: str = SCOPE, **attributes: Value) -> list[Observation]:
    return observations(
        UiPath(), span({key.replace("_", "."): value for key, value in attributes.items()}, scope=scope)
    )


@each_row(
    ("attributes", "scope", "claimed"),
    [
        ({"tool.name": "add"}, SCOPE, True),
        ({"tool.name": "add"}, "any", False),
        ({"tool.name": "add", "tool.call_id": "c", "session.id": "s"}, "opencode", False),
        ({"tool.name": "add", "http.request.method": "POST", "input.value": "{}"}, "any", True),
        ({"tool.name": "add", "openinference.span.kind": "TOOL"}, "any", False),
        ({"span_type": "agent"}, SCOPE, True),
        ({"span_type": "agent"}, "any", False),
        ({"input.value": "{}"}, SCOPE, False),
    ],
)
def test_claims(attributes: dict[str, Value], scope: str, claimed: bool):  # noqa: FBT001 - a column of the table
    assert UiPath().claims(span(attributes, scope=scope)) is claimed


def test_arguments_may_be_a_python_literal():
    assert read(tool_name="add", input_value="{'a': 1, 'dry': True}", output_value="2") == [
        CallExecuted(name="add", arguments=Recorded({"a": 1, "dry": True}), result=Recorded(2))
    ]


def test_uipaths_own_spans_name_the_tool_by_its_id():
    own = span({"tool.name": "add", "tool.id": "res-1", "tool_call.id": "call_1"}, scope=SCOPE)
    assert observations(UiPath(), own) == [CallExecuted(name="add", tool_id="res-1", call_id="call_1")]


@each_row("marked", [True, "true", "True"])
def test_a_synthesized_span_is_no_call(marked: Value):
    assert read(tool_name="add", input_value="{}", tool_synthesized=marked) == []


@each_row("marked", [False, "false", None])
def test_a_span_that_is_not_synthesized_is_a_call(marked: Value):
    assert read(tool_name="add", tool_synthesized=marked) == [CallExecuted(name="add")]
