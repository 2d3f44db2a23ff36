"""Objects that report a failure, and objects that are data about one."""

from tests.rows import each_row
from toolgauge.model.error_objects import reported_failure
from toolgauge.model.json import JsonObject
from toolgauge.model.observations import CallError

FAILURES: tuple[JsonObject, ...] = (
    {"error": "no such order"},
    {"error": True, "message": "no such order"},
    {"error": 404, "message": "no such order"},
    {"error": {"code": 404, "message": "no such order"}},
    {"error": "no such order", "order_id": "A-17", "found": False},
    {"error": "no such city", "suggestions": ["Lima", "Lyon"], "results": []},
    {"error": "timed out", "status": 504, "path": "/orders", "timestamp": "2026-01-01T00:00:00Z"},
    {"errors": [{"message": "no such field"}], "data": None},
    {"errorMessage": "no such order", "errorType": "NotFound"},
    {"ok": False},
    {"ok": 0, "reason": "no such order", "order_id": "A-17"},
    {"success": False, "mensaje": "el pedido no existe"},
    {
        "success": "false",
        "\u30e1\u30c3\u30bb\u30fc\u30b8": "\u6ce8\u6587\u304c\u898b\u3064\u304b\u308a\u307e\u305b\u3093",
    },
    {"success": 0, "error": "no such order"},
    {"isError": True, "detail": "no such order"},
    {"status": "error", "message": "no such order", "order_id": "A-17"},
    {"status": "Failed", "reason": "the window is closed", "code": "E7"},
    {"state": "rejected", "details": {"message": "over the limit"}},
    {"status": "declined", "data": None},
)
DATA: tuple[JsonObject, ...] = (
    {},
    {"error": None, "result": 3},
    {"error": ""},
    {"error": "none", "id": 3},
    {"error": {}},
    {"error": {"code": 0, "message": ""}},
    {"errors": []},
    {"errors": 3, "passed": 9},
    {"errors": ["row 3"], "data": {"rows": [1, 2]}},
    {"job": "b-7", "state": "done", "error": "exit 3"},
    {"id": "b-7", "name": "build", "branch": "main", "error": "exit 3"},
    {"success": True, "error": "one row left out"},
    {"success": False, "id": "p-1", "amount": 30, "currency": "EUR"},
    {"ok": False, "checks": [{"name": "disk", "ok": False}]},
    {"order_id": "A-17", "status": "failed"},
    {"status": "failed", "order": {"id": "A-17"}},
    {"status": "declined", "amount": 30},
    {"status": "not_found"},
    {"message": "order not found"},
    {"results": [], "message": "no order found"},
)


def failure(value: JsonObject, tool: str = "get_order", *, changes_state: bool = False) -> CallError | None:
    return reported_failure(value, tool, {"order_id": "A-17"}, changes_state=changes_state)


@each_row("value", FAILURES)
def test_an_object_that_holds_only_a_failure_reports_it(value: JsonObject):
    assert failure(value) is not None


@each_row("value", DATA)
def test_an_object_with_data_or_without_a_failure_reports_none(value: JsonObject):
    assert failure(value) is None


@each_row(
    ("tool", "value"),
    [
        ("list_errors", {"errors": ["disk full"]}),
        ("get_error_log", {"error": "disk full"}),
        ("validateForm", {"valid": False, "errors": ["no name"]}),
        ("check_health", {"ok": False, "message": "disk full"}),
        ("verify_code", {"success": False}),
        ("get_payment_status", {"status": "failed", "reason": "no funds"}),
        ("get_service_status", {"status": "error"}),
        ("reject_offer", {"status": "rejected"}),
        ("decline_invitation", {"status": "declined"}),
    ],
)
def test_what_the_tool_was_asked_for_is_no_failure(tool: str, value: JsonObject):
    assert failure(value, tool, changes_state=True) is None


@each_row(
    ("tool", "value"),
    [
        ("check_order", {"error": "no such order"}),
        ("check_health", {"ok": False, "error": "timed out"}),
        ("get_order_status", {"status": "error", "message": "no such order"}),
        ("shipping_cost", {"ok": False}),
    ],
)
def test_a_check_fails_like_any_other_tool(tool: str, value: JsonObject):
    assert failure(value, tool) is not None


def test_a_state_that_the_call_was_given_is_no_failure():
    value: JsonObject = {"order_id": "A-17", "status": "rejected"}
    assert reported_failure(value, "set_order", {"order_id": "A-17", "status": "rejected"}, changes_state=True) is None
    assert reported_failure(value, "set_order", {"order_id": "A-17", "status": "paid"}, changes_state=True) is not None


@each_row(
    ("value", "kind", "message"),
    [
        ({"error": {"type": "NotFound", "message": "no such order"}}, "NotFound", "no such order"),
        ({"errors": [{"message": "no such order"}]}, "_OTHER", "no such order"),
        ({"success": False, "nachricht": "keine solche Bestellung"}, "_OTHER", "keine solche Bestellung"),
        ({"ok": False}, "_OTHER", ""),
    ],
)
def test_the_words_of_the_failure_are_its_message(value: JsonObject, kind: str, message: str):
    assert failure(value) == CallError(kind=kind, message=message)
