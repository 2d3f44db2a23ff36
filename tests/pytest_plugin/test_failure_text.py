"""What a person reads when a test fails: expected beside actual, the calls, and what to do where nothing could be judged."""

import pytest

from tests.pytest_plugin.conftest import Run

pytest_plugins = ["pytester"]


def failure(result: pytest.RunResult) -> list[str]:
    """Return what stands behind the `E` of the only failure."""
    result.assert_outcomes(failed=1)
    return [line[1:].strip() for line in result.outlines if line.startswith("E ")]


def test_wrong_argument_has_expected_beside_actual(run_tests: Run):
    lines = failure(
        run_tests(
            """
            @pytest.mark.toolgauge("criteria.yaml")
            def test_refund(scored):
                run(FOUND, REFUNDED_TOO_MUCH)
                scored.assert_passes("refund-order")
            """
        )
    )
    assert lines[0] == "AssertionError: `refund-order` failed: refund_order: amount (exact): expected 20, got 25"
    at = lines.index("refund_order: amount (exact)")
    assert lines[at + 1 : at + 3] == ["expected 20", "got      25"]
    assert [line for line in lines if line.startswith("turn ")] == [
        'turn 1  find_order(order_id="A-17")  executed  [shop]',
        'turn 2  refund_order(order_id="A-17", amount=25)  executed  [shop]',
    ]


def test_failed_call_without_an_error_type_is_called_failed(run_tests: Run):
    lines = failure(
        run_tests(
            """
            from opentelemetry.trace import Status, StatusCode

            @pytest.mark.toolgauge("criteria.yaml")
            def test_refund(scored):
                attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "refund_order", "error.type": "_OTHER"}
                tracer = trace.get_tracer_provider().get_tracer("shop")
                with tracer.start_as_current_span("execute_tool refund_order", attributes=attributes) as span:
                    span.set_status(Status(StatusCode.ERROR, "card declined"))
                assert scored.calls[0].error == "failed: card declined"
                scored.assert_passes("default.tool_success")
            """
        )
    )
    assert "error: failed: card declined" in lines
    assert not any("_OTHER" in line for line in lines)


def test_long_error_keeps_its_cause(run_tests: Run):
    lines = failure(
        run_tests(
            """
            from opentelemetry.trace import Status, StatusCode

            @pytest.mark.toolgauge("criteria.yaml")
            def test_refund(scored):
                attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "refund_order", "error.type": "E"}
                tracer = trace.get_tracer_provider().get_tracer("shop")
                with tracer.start_as_current_span("execute_tool refund_order", attributes=attributes) as span:
                    span.set_status(Status(StatusCode.ERROR, "step failed " * 50 + ": card declined"))
                scored.assert_passes("default.tool_success")
            """
        )
    )
    assert lines[0].endswith('card declined"')
    (error,) = [line for line in lines if line.startswith("error: E: step failed")]
    assert error.endswith("card declined")


def test_missing_call_is_named_with_its_arguments(run_tests: Run):
    lines = failure(
        run_tests(
            """
            @pytest.mark.toolgauge("criteria.yaml")
            def test_refund(scored):
                run(FOUND)
                scored.assert_passes("right-calls")
            """
        )
    )
    at = lines.index("refund_order (missing call)")
    assert lines[at + 1 : at + 3] == [
        'expected {"order_id": "A-17", "amount": 20}',
        "got      nothing",
    ]


def test_extra_call_is_named_with_its_arguments(run_tests: Run):
    lines = failure(
        run_tests(
            """
            @pytest.mark.toolgauge("criteria.yaml")
            def test_refund(scored):
                run(FOUND, REFUNDED, DELETED)
                scored.assert_passes("right-calls")
            """
        )
    )
    at = lines.index("delete_order (extra call)")
    assert lines[at + 1 : at + 3] == ["expected nothing", 'got      {"order_id": "A-17"}']


def test_call_that_was_made_twice_is_a_repeated_one(run_tests: Run):
    lines = failure(
        run_tests(
            """
            @pytest.mark.toolgauge("criteria.yaml")
            def test_refund(scored):
                run(FOUND, REFUNDED, FOUND)
                scored.assert_passes("right-path")
            """,
            criteria__yaml="""
            criteria: [{name: right-path, evaluator: tool_trajectory, match: name, expected: [find_order, refund_order]}]
            """,
        )
    )
    at = lines.index("find_order (repeated call)")
    assert lines[at + 1 : at + 3] == ["expected nothing", 'got      {"order_id": "A-17"}']


def test_one_wrong_argument_of_a_call_is_one_line(run_tests: Run):
    lines = failure(
        run_tests(
            """
            @pytest.mark.toolgauge("criteria.yaml")
            def test_refund(scored):
                run(FOUND, REFUNDED_TOO_MUCH)
                scored.assert_passes("right-calls")
            """
        )
    )
    row = "refund_order: same tool, other arguments: `amount` 25 instead of 20"
    assert lines[0] == f"AssertionError: `right-calls` failed: {row}"
    assert lines.count(row) == 1
    assert not any("extra call" in line or "missing call" in line for line in lines)


def test_traceback_ends_at_the_line_of_the_test(run_tests: Run):
    result = run_tests(
        """
        @pytest.mark.toolgauge("criteria.yaml")
        def test_refund(scored):
            run(FOUND)
            scored.assert_passes("refund-order")
        """
    )
    failure(result)
    assert '>       scored.assert_passes("refund-order")' in [line.replace("    >", ">") for line in result.outlines]
    assert not any("scored.py" in line for line in result.outlines)


def test_arguments_that_were_not_recorded_are_no_pass(run_tests: Run):
    lines = failure(
        run_tests(
            """
            @pytest.mark.toolgauge("criteria.yaml")
            def test_refund(scored):
                run(("refund_order", None))
                scored.assert_passes("refund-order")
            """
        )
    )
    assert lines[0].startswith("AssertionError: `refund-order` could not be evaluated: arguments_not_recorded")
    assert "`pytest --toolgauge-record DIR`, then `toolgauge doctor DIR`, names the setting that records it" in lines


def test_unknown_criterion_is_an_error_with_a_suggestion(run_tests: Run):
    result = run_tests(
        """
        @pytest.mark.toolgauge("criteria.yaml")
        def test_refund(scored):
            run(FOUND)
            scored.assert_passes("refund_order")
        """
    )
    assert failure(result)[-2:] == [
        "toolgauge.model.errors.ConfigError: no criterion called `refund_order` in the criteria files of this test",
        "hint: did you mean `refund-order`?",
    ]
    assert not any("loaded_criteria.py" in line for line in result.outlines)


def test_criterion_for_another_service_names_the_condition(run_tests: Run):
    lines = failure(
        run_tests(
            """
            @pytest.mark.toolgauge("criteria.yaml")
            def test_refund(scored):
                run(FOUND)
                scored.assert_passes()
            """,
            criteria__yaml="""
            criteria: [{name: of-shop, evaluator: tool_use, when: {service: "shop-*"}}]
            """,
        )
    )
    assert lines[0] == (
        "AssertionError: `of-shop` matched nothing: it matched no trajectory: look at `when.service: shop-*`"
    )
    assert any("OTEL_SERVICE_NAME" in line for line in lines)


def test_case_that_no_line_has_is_named(run_tests: Run):
    lines = failure(
        run_tests(
            """
            @pytest.mark.toolgauge("criteria.yaml", case="A-18")
            def test_refund(scored):
                run(REFUNDED)
                scored.assert_passes("by-case")
            """,
            criteria__yaml="""
            criteria:
              - {name: by-case, evaluator: tool_call_args, reference: {file: cases.jsonl, key: eval.case.id}}
            """,
        )
    )
    assert lines[0].startswith("AssertionError: `by-case` could not be evaluated: no_reference")
    assert any(line.startswith("the case is `A-18`") for line in lines)


def test_test_without_spans_names_what_to_look_at(run_tests: Run):
    lines = failure(run_tests("def test_refund(scored): scored.assert_passes()"))
    assert lines[0] == "AssertionError: no spans were collected: nothing can be scored"
    assert any("`scored.collect(provider)`" in line for line in lines)


def test_tracing_that_is_switched_off_is_named(run_tests: Run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    lines = failure(
        run_tests(
            """
            def test_refund(scored):
                run(REFUNDED)
                scored.assert_passes()
            """
        )
    )
    assert "`OTEL_SDK_DISABLED` is set, which switches all tracing off" in lines


def test_span_that_has_not_ended_is_named(run_tests: Run):
    lines = failure(
        run_tests(
            """
            @pytest.mark.toolgauge("criteria.yaml")
            def test_refund(scored):
                span = trace.get_tracer("shop").start_span("refund in the background")
                run(FOUND)
                scored.assert_passes("refund-order")
            """
        )
    )
    assert lines[-1] == "spans that have not ended yet do not count: `refund in the background`"


def test_values_that_differ_behind_a_mask_have_a_remedy(run_tests: Run):
    lines = failure(
        run_tests(
            """
            @pytest.mark.toolgauge("criteria.yaml")
            def test_mail(scored):
                run(("send", {"to": "ann@example.com"}))
                scored.assert_passes("right-mail")
            """,
            criteria__yaml="""
            criteria:
              - name: right-mail
                evaluator: tool_call_args
                expected: [{name: send, args: {to: bob@example.com}}]
            """,
        )
    )
    assert "what differs is masked here; `scored.calls` has the arguments as they are" in lines


def test_control_characters_of_a_span_stay_text(run_tests: Run):
    result = run_tests(
        """
        @pytest.mark.toolgauge("criteria.yaml")
        def test_refund(scored):
            run(("refund_order", {"order_id": "\\x1b[2J", "amount": 20}))
            scored.assert_passes("refund-order")
        """
    )
    lines = failure(result)
    assert not any("\x1b" in line for line in lines)
    assert any("[2J" in line for line in lines)


def test_values_of_the_failing_call_are_followed_back_to_the_user(run_tests: Run):
    lines = failure(
        run_tests(
            """
            @pytest.mark.toolgauge("criteria.yaml")
            def test_refund(scored):
                tracer = trace.get_tracer_provider().get_tracer("shop")
                asked = [{"role": "user", "parts": [{"type": "text", "content": "Refund my order, I am Ann Lee"}]}]
                attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "shop", "gen_ai.input.messages": json.dumps(asked)}
                with tracer.start_as_current_span("invoke_agent shop", attributes=attributes):
                    call(tracer, "find_order", {"name": "Ann Lee"}, {"order_id": "A-17", "total": 20})
                    call(tracer, "refund_order", {"order_id": "A-17", "amount": 25})
                scored.assert_passes("refund-order")
            """
        )
    )
    at = lines.index('turn 2  refund_order(order_id="A-17", amount=25)  executed  [shop]')
    assert lines[at + 2 : at + 4] == [
        '`order_id` "A-17" is from the result of call 1 `find_order`, whose `name` is from the user',
        "`amount` 25 is the model's own",
    ]


@pytest.mark.parametrize("calls", ["", "run((HOSTILE, {HOSTILE: HOSTILE}))"])
def test_no_name_becomes_a_command_to_a_ci_system(calls: str, run_tests: Run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    result = run_tests(
        f"""
        HOSTILE = "#" + "#[add-path]a"

        @pytest.mark.toolgauge("criteria.yaml")
        def test_refund(scored):
            span = trace.get_tracer("shop").start_span(HOSTILE)
            {calls}
            scored.assert_passes("right-calls")
        """
    )
    result.assert_outcomes(failed=1)
    shown = "\n".join((*result.outlines, *result.errlines))
    assert r"\u0023#[add-path]a" in shown
    assert "##[" not in shown
