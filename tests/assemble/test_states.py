"""What became of a call: executed, rejected or only requested, and what the model was told."""

import pytest

from tests.assemble.support import answered, args, executed, joined, model, only_call, reading, requested
from tests.rows import each_row
from toolgauge.model.content import NOT_RECORDED, Recorded, Unparsed
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.observations import CallError, Observation, ToolDefinition, ToolsOffered
from toolgauge.model.trajectory import CallState

OFFER = ToolsOffered(tools=(ToolDefinition(name="get_weather"),))
OTHER = reading("other", executed("other"), start=90)


@pytest.mark.parametrize(
    "request_",
    [requested("get_wether", args()), requested("get_weather", Unparsed('{"city": '))],
    ids=["a name that was not recorded", "broken arguments"],
)
def test_a_missing_definition_and_broken_arguments_are_no_evidence_of_a_rejection(request_: Observation):
    call = only_call(joined(reading("ask", model(), OFFER, request_)))
    assert (call.state, call.error) == ("requested_only", None)


@pytest.mark.parametrize(("with_tool_spans", "state"), [(False, "executed"), (True, "rejected")])
def test_an_error_in_the_answer_means_rejected_only_where_tools_have_spans(with_tool_spans: bool, state: CallState):  # noqa: FBT001 - the value under test
    told = CallError(kind="retry", message="no such city")
    trajectory = joined(
        reading("ask", model(), requested("f", args(), id="1"), start=0),
        reading("next", model(), answered("1", "no such city", error=told), start=5),
        *([OTHER] if with_tool_spans else []),
    )
    call = trajectory.calls[0]
    assert (call.state, call.error, call.result) == (state, told, Recorded("no such city"))


PYDANTIC = """2 validation errors for {title}
amount
  Input should be a valid number, unable to parse string as a number [type=float_parsing, input_value='forty']
    For further information visit https://errors.pydantic.dev/2.14/v/float_parsing
order_id
  Field required [type=missing, input_value={{'amount': 'forty'}}, input_type=dict]"""


@each_row(
    ("kind", "message", "state"),
    [
        ("pydantic_core._pydantic_core.ValidationError", PYDANTIC.format(title="refund"), "rejected"),
        ("ValueError", "Validation failed for input parameters: " + PYDANTIC.format(title="RefundTool"), "rejected"),
        ("ValidationError", "1 validation error for Input\namount\n  Input should be a number", "rejected"),
        ("ValidationError", "1 validation error for BankReply\nstatus\n  Input should be a text", "executed"),
        ("ValidationError", PYDANTIC.format(title="BankReply"), "rejected"),
        ("ValueError", "1 validation error for BankReply\namount\n  Input should be a number", "executed"),
        ("Exception", "Unknown tool: refund", "rejected"),
        ("Exception", "Tool 'refund' not found. Available tools: a, b", "rejected"),
        ("Exception", "Unknown tool: other", "executed"),
        ("ModelBehaviorError", "Invalid JSON input for tool refund: {", "rejected"),
        ("TypeError", "refund() got an unexpected keyword argument 'amount'", "rejected"),
        ("TypeError", "charge() got an unexpected keyword argument 'amount'", "executed"),
        ("AI_InvalidToolInputError", "", "rejected"),
        ("PermissionError", "permission denied", "executed"),
    ],
)
def test_a_failed_tool_span_of_a_call_that_never_ran_is_a_rejected_call(kind: str, message: str, state: CallState):
    error = CallError(kind=kind, message=message)
    call = only_call(joined(reading("tool", executed("refund", args(amount="forty"), error=error))))
    assert (call.state, call.error) == (state, error)


@pytest.mark.parametrize(
    ("arguments", "state"), [({"town": "Lima"}, "rejected"), ({"city": 7, "unit": "c"}, "executed")]
)
def test_a_failed_call_without_a_required_argument_is_rejected(arguments: JsonObject, state: CallState):
    schema: JsonObject = {"properties": {"city": {"type": "string"}}, "required": ["city"]}
    offer = ToolsOffered(tools=(ToolDefinition(name="get_weather", parameters=schema),))
    error = CallError(kind="_OTHER", message="redacted")
    trajectory = joined(
        reading("ask", model(), offer, requested("get_weather", Recorded(arguments), id="1"), start=0),
        reading("tool", executed("get_weather", id="1", error=error), start=1),
    )
    assert only_call(trajectory).state == state


@each_row(
    ("told", "state"),
    [
        ("Unknown tool name: 'refund'. Available tools: 'g'", "rejected"),
        ("ToolNotFound: refund did not answer", "rejected"),
        ("tool_not_found: there is no refund here", "rejected"),
        ("The tool call with name `refund` is not part of the provided tools, please try again.", "rejected"),
        ("Missing required argument(s): ['city']. Received unexpected argument(s): ['town'].", "rejected"),
        ("Error: Argument parsing failed.", "rejected"),
        ("Error: Argument parsing failed. Exception: amount\nis no number", "rejected"),
        (
            "1 validation error for call[refund]\namount\n  Input should be a valid number [type=float_parsing]",
            "rejected",
        ),
        (
            "An error occurred while invoking it: Parameter amount is expected to be parsed to <class 'float'> but is not.",
            "rejected",
        ),
        ("Tool call was cancelled.", "cancelled"),
        ("Cancelled: parallel tool call Bash(ls) errored", "cancelled"),
        ("no such customer", "executed"),
        ("x" * 400 + "Unknown tool: refund", "executed"),
        ("The log says: Error: Argument parsing failed.", "executed"),
        ("Parameter total is expected to be parsed to <class 'float'>", "executed"),
        ("The request was cancelled by the user", "executed"),
        ("Task was aborted.", "executed"),
    ],
)
def test_an_answer_may_say_in_words_that_the_call_did_not_run(told: str, state: CallState):
    trajectory = joined(
        reading("ask", model(), requested("refund", args(amount="forty"), id="1"), start=0),
        reading("next", model(), answered("1", told), start=5),
    )
    assert only_call(trajectory).state == state


@pytest.mark.parametrize(("with_tool_spans", "state"), [(False, "executed"), (True, "requested_only")])
def test_an_answer_proves_execution_only_where_nobody_writes_tool_spans(with_tool_spans: bool, state: CallState):  # noqa: FBT001 - the value under test
    trajectory = joined(
        reading("ask", model(), requested("f", args(), id="1"), start=0),
        reading("next", model(), answered("1", "fine"), start=5),
        *([OTHER] if with_tool_spans else []),
    )
    assert (trajectory.calls[0].state, trajectory.calls[0].result) == (state, Recorded("fine"))


def test_a_request_that_nobody_answered_is_only_requested():
    call = only_call(joined(reading("ask", model(), OFFER, requested("get_weather", args()), start=1, end=7)))
    assert (call.state, call.error, call.result, call.span) == (
        "requested_only",
        None,
        NOT_RECORDED,
        reading("ask").ref,
    )
    assert (call.start_ns, call.end_ns) == (7_000_000, 7_000_000)


def test_answers_without_ids_go_by_name_from_the_newest_back():
    trajectory = joined(
        reading("ask1", model(), answered(None, "old", name="f"), requested("f", args(n=1)), start=0),
        reading(
            "ask2", model(), answered(None, "old", name="f"), answered(None, "one", name="f"), requested("g"), start=5
        ),
        reading(
            "ask3",
            model(),
            answered(None, "old", name="f"),
            answered(None, "one", name="f"),
            answered(None, "two", name="g"),
            start=9,
        ),
    )
    assert [call.result for call in trajectory.calls] == [Recorded("one"), Recorded("two")]


@each_row(
    ("told", "error"),
    [
        ("Error: PermissionError: denied", CallError(kind="PermissionError", message="Error: PermissionError: denied")),
        ("error: shop.NoCard('x')", None),
        ("Tool error: shop.CardError('x')", CallError(kind="CardError", message="Tool error: shop.CardError('x')")),
        ("Error: nothing found", None),
        ("TimeoutError: from yesterday's log", None),
        ("Error executing tool f: no", CallError(kind="_OTHER", message="Error executing tool f: no")),
        ("Error executing tool 'pay': from the log of another tool", None),
        ({"error": "no such user"}, CallError(kind="_OTHER", message="no such user")),
        ({"error": {"type": "NotFound", "message": "no"}}, CallError(kind="NotFound", message="no")),
        ({"message": "no", "is_error": True}, CallError(kind="_OTHER", message="no")),
        ({"error": None, "message": "fine"}, None),
        ({"error": "spelling", "pages": [7]}, None),
        ({"status": "error", "job": 3}, None),
    ],
)
def test_an_answer_tells_a_failure_only_in_forms_that_leave_no_doubt(told: Json, error: CallError | None):
    trajectory = joined(
        reading("ask", model(), requested("f", args(), id="1"), start=0),
        reading("next", model(), answered("1", told), start=5),
    )
    call = only_call(trajectory)
    assert (call.state, call.error, call.result) == ("executed", error, Recorded(told))


def test_what_a_tool_with_a_span_returned_is_not_searched_for_errors():
    call = only_call(joined(reading("tool", executed("f", result=Recorded({"error": "no such user"})))))
    assert (call.state, call.error) == ("executed", None)


def test_bare_text_of_a_tool_that_wrote_json_in_another_call_is_what_it_raised():
    failed = reading("failed", executed("report", result=Unparsed("connection reset by peer")))
    worked = reading("worked", executed("report", result=Recorded("Revenue grew.")), start=5)
    first, second = joined(failed, worked).calls
    assert (first.state, first.result) == ("executed", Recorded("connection reset by peer"))
    assert first.error == CallError(kind="_OTHER", message="connection reset by peer")
    assert (second.result, second.error) == (Recorded("Revenue grew."), None)


def test_a_tool_that_writes_nothing_but_bare_text_has_not_failed():
    quote = reading("quote", executed("quote", result=Unparsed("Carpe diem.")))
    other = reading("other", executed("report", result=Recorded({"pages": 1})), start=5)
    again = reading("again", executed("quote", result=Unparsed("Festina lente.")), start=9)
    calls = joined(quote, other, again).calls
    assert [call.error for call in calls] == [None, None, None]
    assert calls[0].result == Recorded("Carpe diem.")


CANCELLED = [
    CallError(kind="asyncio.exceptions.CancelledError", message=""),
    CallError(kind="KeyboardInterrupt", message=""),
    CallError(kind="System.Threading.Tasks.TaskCanceledException", message="A task was canceled."),
    CallError(kind="AbortError", message="This operation was aborted"),
    CallError(kind="_OTHER", message="AbortError: The operation was aborted."),
    CallError(kind="*url.Error", message='Get "https://shop.example/orders": context canceled'),
    CallError(kind="_OTHER", message="rpc error: code = Canceled desc = context canceled"),
    CallError(kind="CANCELLED", message=""),
    CallError(kind="_OTHER", message="Tool execution aborted"),
    CallError(kind="_OTHER", message="aborted by user after 3.2s"),
    CallError(kind="_OTHER", message="User aborted the request."),
    CallError(kind="_OTHER", message="<tool_use_error>Sibling tool call errored</tool_use_error>"),
    CallError(kind="_OTHER", message="Cancelled: parallel tool call Bash(ls) errored"),
    CallError(kind="_OTHER", message="cancelled because another tool call failed"),
]


@each_row("error", CANCELLED, ids=lambda error: f"{error.kind} {error.message}")
def test_a_call_that_was_cancelled_has_not_failed(error: CallError):
    call = only_call(joined(reading("tool", executed("find", args(q="x"), error=error))))
    assert (call.state, call.error, call.has_failed) == ("cancelled", None, False)


@each_row(
    "error",
    [
        CallError(
            kind="TaskCanceledException", message="The request was canceled due to the HttpClient.Timeout of 100 s"
        ),
        CallError(kind="AbortError", message="The operation was aborted due to timeout"),
        CallError(kind="TimeoutError", message=""),
        CallError(kind="_OTHER", message="context deadline exceeded"),
        CallError(kind="StopIteration", message=""),
        CallError(kind="_OTHER", message="Canceled: no such card"),
        CallError(kind="ValueError", message="order 7 was cancelled by the user"),
    ],
    ids=lambda error: f"{error.kind} {error.message}",
)
def test_a_timeout_and_what_only_speaks_of_a_cancellation_are_failures(error: CallError):
    call = only_call(joined(reading("tool", executed("find", args(q="x"), error=error))))
    assert (call.state, call.error) == ("executed", error)


PATCH = "*** Begin Patch\n*** Update File: a.py\n-x = 1\n+x = 2\n*** End Patch"


@pytest.mark.parametrize("arguments", [Unparsed(PATCH), Recorded(PATCH)])
def test_a_tool_that_takes_free_text_and_was_answered_was_executed(arguments: Unparsed | Recorded):
    asked = reading("model", model(), requested("apply_patch", arguments, id="1"), start=0, end=1)
    told = reading("again", model(), answered("1", "patched a.py"), start=2, end=3)
    call = only_call(joined(asked, told))
    assert (call.state, call.error, call.result) == ("executed", None, Recorded("patched a.py"))


def test_free_text_that_its_tool_could_not_use_failed_and_was_not_rejected():
    error = CallError(kind="PatchError", message="no such line")
    spans = (
        reading("model", model(), requested("apply_patch", Unparsed(PATCH), id="1"), start=0, end=1),
        reading("tool", executed("apply_patch", Unparsed(PATCH), id="1", error=error), start=2, end=3),
    )
    call = only_call(joined(*spans))
    assert (call.state, call.error) == ("executed", error)
