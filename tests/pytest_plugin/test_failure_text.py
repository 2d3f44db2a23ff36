"""What a person reads when a test fails: expected beside actual, the calls, and what to do where nothing could be judged."""

import pytest

from tests.pytest_plugin.conftest import Run, one_test

pytest_plugins = ["pytester"]


def failure(result: pytest.RunResult) -> list[str]:
    """Return what stands behind the `E` of the only failure."""
    result.assert_outcomes(failed=1)
    return [line[1:].strip() for line in result.outlines if line.startswith("E ")]


def test_wrong_argument_has_expected_beside_actual(run_tests: Run):
    result = run_tests(one_test("run(FOUND, REFUNDED_TOO_MUCH)", "refund-order"))
    lines = failure(result)
    assert lines[0] == "AssertionError: `refund-order` failed: refund_order: amount (exact): expected 20, got 25"
    at = lines.index("refund_order: amount (exact)")
    assert lines[at + 1 : at + 3] == ["expected 20", "got      25"]
    assert [line for line in lines if line.startswith("turn ")] == [
        'turn 1  find_order(order_id="A-17")  executed  [shop]',
        'turn 2  refund_order(order_id="A-17", amount=25)  executed  [shop]',
    ]
    # The traceback ends at the line of the test.
    assert any(line.startswith(">") and "scored.assert_passes('refund-order')" in line for line in result.outlines)
    assert not any("scored.py" in line for line in result.outlines)


FAILING = """
attributes = {{"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "refund_order", "error.type": "{kind}"}}
tracer = trace.get_tracer_provider().get_tracer("shop")
with tracer.start_as_current_span("execute_tool refund_order", attributes=attributes) as span:
    span.set_status(trace.Status(trace.StatusCode.ERROR, {message}))
"""


def test_failed_call_without_an_error_type_is_called_failed(run_tests: Run):
    body = FAILING.format(kind="_OTHER", message="'card declined'")
    asserted = "assert scored.calls[0].error == 'failed: card declined'"
    lines = failure(run_tests(one_test(f"{body}{asserted}", "default.tool_success")))
    assert "error: failed: card declined" in lines
    assert not any("_OTHER" in line for line in lines)


def test_long_error_keeps_its_cause(run_tests: Run):
    body = FAILING.format(kind="E", message="'step failed ' * 50 + ': card declined'")
    lines = failure(run_tests(one_test(body, "default.tool_success")))
    assert lines[0].endswith('card declined"')
    (error,) = [line for line in lines if line.startswith("error: E: step failed")]
    assert error.endswith("card declined")


PATH = """
criteria: [{name: right-path, evaluator: tool_trajectory, match: name, expected: [find_order, refund_order]}]
"""


@pytest.mark.parametrize(
    ("calls", "criterion", "line", "expected", "got"),
    [
        (
            "FOUND",
            "right-calls",
            "refund_order (missing call)",
            '{"order_id": "A-17", "amount": 20}',
            "nothing",
        ),
        ("FOUND, REFUNDED, DELETED", "right-calls", "delete_order (extra call)", "nothing", '{"order_id": "A-17"}'),
        ("FOUND, REFUNDED, FOUND", "right-path", "find_order (repeated call)", "nothing", '{"order_id": "A-17"}'),
    ],
)
def test_call_too_few_or_too_many_is_named_with_its_arguments(
    calls: str, criterion: str, line: str, expected: str, got: str, run_tests: Run
):
    files = {"criteria__yaml": PATH} if criterion == "right-path" else {}
    lines = failure(run_tests(one_test(f"run({calls})", criterion), **files))
    at = lines.index(line)
    assert lines[at + 1 : at + 3] == [f"expected {expected}", f"got      {got}"]


def test_one_wrong_argument_of_a_call_is_one_line(run_tests: Run):
    lines = failure(run_tests(one_test("run(FOUND, REFUNDED_TOO_MUCH)", "right-calls")))
    row = "refund_order: same tool, other arguments: `amount` 25 instead of 20"
    assert lines[0] == f"AssertionError: `right-calls` failed: {row}"
    assert lines.count(row) == 1
    assert not any("extra call" in line or "missing call" in line for line in lines)


def test_unknown_criterion_is_an_error_with_a_suggestion(run_tests: Run):
    result = run_tests(one_test("run(FOUND)", "refund_order"))
    error, hint = failure(result)[-2:]
    assert error.startswith("toolgauge.model.errors.ConfigError: no criterion called `refund_order`")
    assert hint == "hint: did you mean `refund-order`?"
    assert not any("marked_criteria.py" in line for line in result.outlines)


OF_SHOP = 'criteria: [{name: of-shop, evaluator: tool_use, when: {service: "shop-*"}}]'
BY_CASE = "criteria: [{name: by-case, evaluator: tool_call_args, reference: {file: cases.jsonl, key: eval.case.id}}]"


@pytest.mark.parametrize(
    ("test", "criteria", "first", "remedy"),
    [
        (
            one_test("run(('refund_order', None))", "refund-order"),
            None,
            "AssertionError: `refund-order` could not be evaluated: arguments_not_recorded",
            "`pytest --toolgauge-record DIR`",
        ),
        (
            one_test("run(FOUND)"),
            OF_SHOP,
            "AssertionError: `of-shop` matched nothing: it matched no trajectory: look at `when.service: shop-*`",
            "OTEL_SERVICE_NAME",
        ),
        (
            one_test("run(REFUNDED)", "by-case", mark='"criteria.yaml", case="A-18"'),
            BY_CASE,
            "AssertionError: `by-case` could not be evaluated: no_reference",
            "the case is `A-18`",
        ),
        (
            "def test_refund(scored): scored.assert_passes()",
            None,
            "AssertionError: no spans were collected: nothing can be scored",
            "`scored.collect(provider)`",
        ),
        (
            one_test("trace.get_tracer('shop').start_span('in the background')\nrun(FOUND)", "refund-order"),
            None,
            "AssertionError: `refund-order` ",
            "spans that have not ended yet do not count: `in the background`",
        ),
        (
            one_test("run(('send', {'to': 'ann@example.com'}))", "mail"),
            "criteria: [{name: mail, evaluator: tool_call_args, expected: [{name: send, args: {to: bob@example.com}}]}]",
            "AssertionError: `mail` failed: ",
            "what differs is masked here; `scored.calls` has the arguments as they are",
        ),
    ],
    ids=["not recorded", "other service", "unknown case", "no spans", "open span", "masked"],
)
def test_what_could_not_pass_has_its_remedy(test: str, criteria: str | None, first: str, remedy: str, run_tests: Run):
    lines = failure(run_tests(test, **({} if criteria is None else {"criteria__yaml": criteria})))
    assert lines[0].startswith(first)
    assert any(remedy in line for line in lines)


def test_tracing_that_is_switched_off_is_named(run_tests: Run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    lines = failure(run_tests(one_test("run(REFUNDED)")))
    assert "`OTEL_SDK_DISABLED` is set, which switches all tracing off" in lines


def test_control_characters_of_a_span_stay_text(run_tests: Run):
    lines = failure(
        run_tests(one_test(r"run(('refund_order', {'order_id': '\x1b[2J', 'amount': 20}))", "refund-order"))
    )
    assert not any("\x1b" in line for line in lines)
    assert any("[2J" in line for line in lines)


def test_values_of_the_failing_call_are_followed_back_to_the_user(run_tests: Run):
    body = """
    tracer = trace.get_tracer_provider().get_tracer("shop")
    asked = [{"role": "user", "parts": [{"type": "text", "content": "Refund my order, I am Ann Lee"}]}]
    attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.input.messages": json.dumps(asked)}
    with tracer.start_as_current_span("invoke_agent shop", attributes=attributes):
        call(tracer, "find_order", {"name": "Ann Lee"}, {"order_id": "A-17", "total": 20})
        call(tracer, "refund_order", {"order_id": "A-17", "amount": 25})
    """
    lines = failure(run_tests(one_test(body, "refund-order")))
    assert '`order_id` "A-17" is from the result of call 1 `find_order`, whose `name` is from the user' in lines
    assert "`amount` 25 is the model's own" in lines


@pytest.mark.parametrize("calls", ["", "run((HOSTILE, {HOSTILE: HOSTILE}))"])
def test_no_name_becomes_a_command_to_a_ci_system(calls: str, run_tests: Run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    body = f"HOSTILE = '#' + '#[add-path]a'\nspan = trace.get_tracer('shop').start_span(HOSTILE)\n{calls}"
    result = run_tests(one_test(body, "right-calls"))
    result.assert_outcomes(failed=1)
    shown = "\n".join((*result.outlines, *result.errlines))
    assert r"\u0023#[add-path]a" in shown
    assert "##[" not in shown
