"""The fixture in tests of agents: marks, cases, plain calls, several runs in one test, and the table at the end."""

import pytest

from tests.pytest_plugin.conftest import Run, one_test

pytest_plugins = ["pytester"]
BY_CASE = """
    criteria:
      - {name: by-case, evaluator: tool_call_args, reference: {file: cases.jsonl, key: order.id}}
"""


def test_criteria_of_module_class_test_and_ini_file_count(run_tests: Run):
    one = "criteria: [{{name: {}, evaluator: tool_use}}]".format
    result = run_tests(
        """
        pytestmark = pytest.mark.toolgauge("module.yaml")

        @pytest.mark.toolgauge(criteria=["class.yaml", "module.yaml"])
        class TestShop:
            @pytest.mark.toolgauge(criteria="test.yaml")
            def test_refund(self, scored):
                run(REFUNDED)
                scored.assert_passes("of-ini", "of-module", "of-class", "of-test")
        """,
        module__yaml=one("of-module"),
        class__yaml=one("of-class"),
        test__yaml=one("of-test"),
        ini__yaml=one("of-ini"),
        pytest__ini="[pytest]\ntoolgauge_criteria = ini.yaml",
    )
    result.assert_outcomes(passed=1)


def test_criterion_that_passes_one_call_and_ends_in_an_error_for_another_does_not_pass(run_tests: Run):
    result = run_tests(
        """
        @pytest.mark.toolgauge(criteria="half.yaml")
        def test_refund(scored):
            run(FOUND, REFUNDED)
            with pytest.raises(AssertionError, match="ended in an error"):
                scored.assert_passes("half")
        """,
        half__yaml="criteria: [{name: half, evaluator: './half.py:Half'}]",
        half__py="""
            from toolgauge.model.outcomes import Errored, Scored

            class Half:
                version = "1"
                level = "call"

                def evaluate(self, trajectory, expected):
                    first, second = trajectory.calls
                    yield first, Scored(1.0, "fine")
                    yield second, Errored(error_type="Timeout", message="took too long")
        """,
    )
    result.assert_outcomes(passed=1)


def test_criterion_may_be_written_in_the_test(run_tests: Run):
    body = """
    from toolgauge import Criterion

    run(REFUNDED)
    scored.assert_passes(Criterion("refund", "tool_call_f1", match="name", expected=["refund_order"]))
    """
    run_tests(one_test(body, "refund-order")).assert_outcomes(passed=1)


def test_case_is_looked_up_whatever_the_key_of_the_reference(run_tests: Run):
    result = run_tests(
        """
        pytestmark = pytest.mark.toolgauge("criteria.yaml")

        @pytest.mark.toolgauge(case="A-17")
        def test_mark(scored):
            run(REFUNDED)
            scored.assert_passes("by-case")

        @pytest.mark.parametrize("order", ["A-17"])
        def test_parametrised(scored, order):
            scored.case = order
            run(REFUNDED_TOO_MUCH)
            scored.assert_passes("by-case")

        def test_own_attribute(scored):
            run(REFUNDED, root={"order.id": "A-17"})
            scored.assert_passes("by-case")
        """,
        criteria__yaml=BY_CASE,
    )
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["*`by-case` failed: refund_order: amount (exact): expected 20, got 25"])


def test_attributes_of_the_mark_stand_on_the_resource(run_tests: Run):
    criteria = 'criteria: [{name: of-shop, evaluator: tool_use, when: {service: "shop-*"}}]'
    mark = '"criteria.yaml", attributes={"service.name": "shop-eu"}'
    run_tests(one_test("run(REFUNDED)", "of-shop", mark=mark), criteria__yaml=criteria).assert_outcomes(passed=1)


def test_test_itself_is_a_key_of_a_reference(run_tests: Run):
    result = run_tests(
        one_test("run(REFUNDED)", "by-test"),
        criteria__yaml="""
        criteria: [{name: by-test, evaluator: tool_call_f1, match: name, reference: {file: c.jsonl, key: test.case.name}}]
        """,
        c__jsonl='{"case": "test_shop.py::test_refund", "expected": ["refund_order"]}',
    )
    result.assert_outcomes(passed=1)


def test_mistake_in_a_mark_is_named(run_tests: Run):
    result = run_tests(one_test("pass", mark='criterion="criteria.yaml"'))
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*the mark `toolgauge` has no `criterion`: it knows `criteria`, *"])


def test_file_that_is_missing_is_named(run_tests: Run):
    result = run_tests(one_test("run(REFUNDED)", mark='"criterias.yaml"'))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E *ConfigError: *criterias.yaml*"])
    result.stdout.no_fnmatch_line("*src/toolgauge/config*")


def test_spans_of_an_earlier_test_are_not_scored(run_tests: Run):
    result = run_tests(
        """
        @pytest.mark.toolgauge("criteria.yaml")
        @pytest.mark.parametrize("calls", [(FOUND, REFUNDED), (FOUND,)], ids=["whole", "half"])
        def test_refund(scored, calls):
            run(*calls)
            scored.assert_passes("right-calls")
        """
    )
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["FAILED *test_refund?half? *"])


def test_agent_that_a_fixture_calls_is_scored_also_where_ours_is_asked_for_by_name(run_tests: Run):
    result = run_tests(
        """
        pytestmark = pytest.mark.toolgauge("criteria.yaml")

        @pytest.fixture
        def answer():
            run(FOUND, REFUNDED)

        def test_refund(answer, scored):
            scored.assert_passes("right-calls")

        def test_by_name(request):
            scored = request.getfixturevalue("scored")
            run(FOUND, REFUNDED)
            scored.assert_passes("right-calls")
        """
    )
    result.assert_outcomes(passed=2)


def test_provider_of_a_framework_is_collected_from(run_tests: Run):
    result = run_tests(
        """
        from opentelemetry.sdk.trace import TracerProvider

        @pytest.mark.toolgauge("criteria.yaml")
        def test_refund(scored):
            own = TracerProvider(shutdown_on_exit=False)
            scored.collect(own)
            run(FOUND, REFUNDED, provider=own)
            scored.assert_passes("right-calls")

        def test_no_provider(scored):
            with pytest.raises(TypeError, match="takes no span or log record processors"):
                scored.collect(object())
        """
    )
    result.assert_outcomes(passed=2)


def test_each_run_of_a_test_has_to_pass(run_tests: Run):
    body = """
    run(FOUND, REFUNDED)
    scored.assert_passes("right-calls")
    run(FOUND)
    assert len(scored.trajectories) == 2
    with pytest.raises(AssertionError, match="missing call"):
        scored.assert_passes("right-calls")
    scored.clear()
    run(FOUND, REFUNDED)
    """
    run_tests(one_test(body, "right-calls")).assert_outcomes(passed=1)


def test_turns_of_a_conversation_are_judged_together(run_tests: Run):
    body = """
    talk = {"gen_ai.conversation.id": "c-1"}
    for calls in ((FOUND,), (), (REFUNDED,)):
        run(*calls, root=talk)
    assert [call.name for call in scored.calls] == ["find_order", "refund_order"]
    assert scored.calls[1].arguments == {"order_id": "A-17", "amount": 20}
    assert (scored.calls[1].result, scored.calls[1].agent) == (None, "shop")
    """
    criteria = """
    criteria:
      - {name: whole-talk, evaluator: tool_call_f1, scope: conversation, match: name, expected: [find_order, refund_order]}
    """
    run_tests(one_test(body, "whole-talk"), criteria__yaml=criteria).assert_outcomes(passed=1)


def test_without_names_all_that_decide_have_to_pass(run_tests: Run):
    result = run_tests(
        """
        pytestmark = pytest.mark.toolgauge("criteria.yaml")

        def test_good(scored):
            run(FOUND, REFUNDED)
            scored.assert_passes()

        def test_bad(scored):
            run(FOUND, REFUNDED_TOO_MUCH)
            scored.assert_passes()
        """
    )
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*`refund-order` failed: *(and 1 more criterion)"])


def test_criterion_that_is_tried_out_fails_nothing_unless_it_is_named(run_tests: Run):
    result = run_tests(
        """
        pytestmark = pytest.mark.toolgauge("criteria.yaml")

        def test_all(scored):
            run(FOUND)
            scored.assert_passes()

        def test_named(scored):
            run(FOUND)
            scored.assert_passes("tried-out")
        """,
        criteria__yaml="""
        criteria:
          - {name: any-tool, evaluator: tool_use}
          - {name: tried-out, evaluator: tool_call_f1, match: name, expected: [refund_order], enforce: shadow}
        """,
    )
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["FAILED *::test_named *"])


def test_run_without_calls_passes_nothing(run_tests: Run):
    result = run_tests(
        """
        def test_nothing_to_judge(scored):
            run()
            scored.assert_passes("default.tool_success")

        def test_the_run_ended_well(scored):
            run()
            scored.assert_passes()
        """
    )
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(["*`default.tool_success` could not be evaluated: no_calls: *"])


def test_configuration_of_mark_and_ini_file_counts(run_tests: Run):
    body = """
    run(REFUNDED)
    with pytest.raises(Exception, match="no criterion called `default.tool_use`"):
        scored.assert_passes("default.tool_use")
    """
    result = run_tests(
        one_test(body, "from-ini", "from-mark", mark='config="shop.yaml", overrides=["defaults.tool_use=false"]'),
        shop__yaml="criteria: [{name: from-mark, evaluator: tool_use}]",
        all__yaml="criteria_files: [more.yaml]",
        more__yaml="criteria: [{name: from-ini, evaluator: tool_use}]",
        pytest__ini="[pytest]\ntoolgauge_config = all.yaml",
    )
    result.assert_outcomes(passed=1)


TWO = """
    pytestmark = pytest.mark.toolgauge("criteria.yaml")

    def test_good(scored):
        run(FOUND, REFUNDED)
        scored.assert_passes("refund-order")

    def test_bad(scored):
        run(FOUND, REFUNDED_TOO_MUCH)
        scored.assert_passes("refund-order")
"""


def test_table_counts_the_results_of_the_criteria_that_were_asserted(run_tests: Run):
    result = run_tests(TWO)
    result.stdout.fnmatch_lines(
        [
            "*= toolgauge =*",
            "criterion       pass    fail   error   mean      of  not evaluated",
            "refund-order       1       1       0  0.750       2  0",
        ]
    )


def test_quiet_run_and_one_that_asserts_nothing_have_no_table(run_tests: Run):
    run_tests(TWO, "-q").stdout.no_fnmatch_line("*= toolgauge =*")
    result = run_tests("def test_refund(scored): run(REFUNDED)")
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*= toolgauge =*")


def test_results_are_properties_of_the_junit_report(run_tests: Run, pytester: pytest.Pytester):
    run_tests(TWO, "--junit-xml=report.xml")
    report = (pytester.path / "report.xml").read_text()
    assert '<property name="toolgauge.refund-order" value="pass 1.000" />' in report
    assert '<property name="toolgauge.refund-order" value="fail 0.500" />' in report
