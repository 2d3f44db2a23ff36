"""What is learned from runs, and what is not."""

from msgspec.structs import replace

from tests.authoring.support import OPTIONS, call, learned, learned_text, refund, run
from tests.rows import each_row
from tests.score.support import scored, user
from toolgauge.authoring.evidence import Evidence, Requirements
from toolgauge.authoring.learner import Learner, Options
from toolgauge.evaluators.policy import Policy
from toolgauge.model.observations import ToolDefinition
from toolgauge.service.criteria_factory import make_evaluator

USUAL = [refund(number) for number in range(60)]


def test_every_criterion_can_be_made_by_its_evaluator():
    criteria = learned(USUAL)
    assert sorted(criteria) == ["always", "arguments", "budget", "order", "origins", "tools"]
    for criterion in criteria.values():
        parameters = {
            key: value for key, value in criterion.items() if key not in ("name", "evaluator", "when", "scope")
        }
        make_evaluator(str(criterion["evaluator"]), parameters)


def test_criteria_are_for_the_service_and_its_conversations():
    assert {(str(one["when"]), one["scope"]) for one in learned(USUAL).values()} == {
        ("{'service': 'shop'}", "conversation")
    }


def test_traffic_without_conversations_is_judged_by_traces():
    runs = [replace(one, conversation_id=None, scope="trace") for one in USUAL]
    assert {one["scope"] for one in learned(runs).values()} == {"trace"}


def test_the_tools_that_were_called_are_allowed():
    assert learned(USUAL)["tools"]["allow_only"] == [{"tool": ["find_order", "refund"]}]


def test_each_of_several_agents_is_allowed_its_own_tools():
    runs = [
        run(number, call("find_order", agent="reader"), call("refund", agent="clerk"), agents=("clerk", "reader"))
        for number in range(30)
    ]
    assert learned(runs)["tools"]["allow_only"] == [
        {"agent": "clerk", "tool": ["refund"]},
        {"agent": "reader", "tool": ["find_order"]},
    ]


def test_arguments_have_types_labels_ranges_and_shapes():
    assert learned(USUAL)["arguments"]["schemas"] == {
        "find_order": {
            "type": "object",
            "properties": {"order_id": {"type": "string", "pattern": "^(?:[A-Z][0-9]{7})$"}},
            "required": ["order_id"],
        },
        "refund": {
            "type": "object",
            "properties": {
                "amount": {"type": "number", "minimum": 0, "maximum": 99},
                "cabin": {"type": "string", "enum": ["business", "economy"]},
                "order_id": {"type": "string", "pattern": "^(?:[A-Z][0-9]{7})$"},
                # A phrase that no definition spells is free text.
                "reason": {"type": "string"},
            },
            "required": ["amount", "cabin", "order_id", "reason"],
        },
    }


def test_phrases_that_the_definition_spells_are_labels():
    definition = ToolDefinition(name="refund", description="Reasons are 'damaged' and 'too late'.")
    offered = [definition, ToolDefinition(name="find_order")]
    runs = [replace(one, tools_offered=tuple(offered)) for one in USUAL]
    schemas = learned(runs)["arguments"]["schemas"]
    assert schemas["refund"]["properties"]["reason"] == {"type": "string", "enum": ["damaged", "too late"]}


def test_nested_arguments_have_nested_schemas():
    runs = [
        run(
            number,
            call(
                "book", {"legs": [{"number": f"HAT{100 + number}", "seats": place} for place in range(2)], "open": True}
            ),
        )
        for number in range(30)
    ]
    schemas = learned(runs)["arguments"]["schemas"]
    assert schemas == {
        "book": {
            "type": "object",
            "properties": {
                "legs": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {
                            "number": {"type": "string", "pattern": "^(?:[A-Z]+[0-9]{3})$"},
                            "seats": {"type": "integer"},
                        },
                        "required": ["number", "seats"],
                    },
                },
                "open": {"type": "boolean"},
            },
            "required": ["legs", "open"],
        }
    }


def test_an_argument_that_is_missing_now_and_then_is_not_required():
    runs = [refund(number) if number % 10 else refund(number, note="x") for number in range(60)]
    schemas = learned(runs)["arguments"]["schemas"]
    assert "note" not in schemas["refund"]["required"]


def test_null_is_among_the_labels_where_it_was():
    runs = [run(number, call("book", {"cabin": None if number == 7 else "economy"})) for number in range(30)]
    assert learned(runs)["arguments"]["schemas"]["book"]["properties"] == {
        "cabin": {"type": ["null", "string"], "enum": ["economy", None]}
    }


def test_arguments_that_are_new_in_every_call_are_not_kept():
    runs = [
        run(number, call("save", {"deep": {f"k{number}{letter}": {letter: {letter: 1}} for letter in "abcdefgh"}}))
        for number in range(60)
    ]
    assert learned(runs)["arguments"]["schemas"]["save"] == {
        "type": "object",
        "properties": {"deep": {"type": "object", "additionalProperties": True}},
        "required": ["deep"],
    }


def test_what_always_came_before_is_an_order():
    assert learned(USUAL)["order"]["rules"] == [{"before": "refund", "call": "find_order"}]


def test_one_of_two_tools_that_came_before_is_enough():
    runs = [run(number, call(f"find_by_{'mail' if number % 2 else 'name'}"), call("refund")) for number in range(60)]
    assert learned(runs)["order"]["rules"] == [{"before": "refund", "call": ["find_by_mail", "find_by_name"]}]


def test_a_call_that_failed_came_before_nothing():
    runs = [run(number, call("find_order", error=True), call("refund")) for number in range(60)]
    assert "order" not in learned(runs)


def test_ids_come_from_results():
    runs = [
        run(
            number,
            call("find_user", {"city": "x"}, {"id": f"U{1000 + number}"}),
            call("close", {"user_id": f"U{1000 + number}"}),
        )
        for number in range(30)
    ]
    assert learned(runs)["origins"]["rules"] == {"close.user_id": {"from": {"tool": "find_user"}}}


def test_ids_of_a_single_customer_show_no_origin():
    runs = [
        run(number, call("find_user", {"city": "x"}, {"id": "U1000"}), call("close", {"user_id": "U1000"}))
        for number in range(60)
    ]
    assert "origins" not in learned(runs)


def test_limits_are_a_little_above_what_runs_took():
    budget = learned(USUAL)["budget"]
    assert (budget["calls"], budget["errors"]) == (3, 1)
    assert budget["per_tool"] == {"find_order": {"calls": 2}, "refund": {"calls": 2}}


def test_what_every_run_does_has_to_be_done():
    assert learned(USUAL)["always"]["counts"] == {"find_order": ">= 1", "refund": ">= 1"}


def test_lines_have_their_evidence():
    text = learned_text(USUAL)
    assert "# 60 runs with 120 calls of shop\n" in text
    assert "# A rule needs 20 runs. 0 of 60 runs would fail what is learned from the others.\n" in text
    assert "          - refund  # 60 calls, in 60 of 60 runs\n" in text
    assert "      - {before: refund, call: find_order}  # 60 of 60 runs\n" in text
    assert "    calls: 3  # 50% 2, 90% 2, 99% 2, most 2, of 60 runs\n" in text


def test_the_order_of_runs_makes_no_difference():
    assert learned_text(USUAL) == learned_text(reversed(USUAL))


def test_too_few_runs_teach_nothing():
    assert learned_text(USUAL[:19]).endswith("criteria: []\n")


def test_a_rule_that_too_many_runs_break_is_not_written():
    broken = [run(number, call("refund", {"order_id": f"W{number}"})) for number in range(100, 103)]
    assert "order" not in learned([*USUAL, *broken])


def test_a_rule_that_a_hundred_runs_break_does_not_hold_at_any_tolerance():
    assert Evidence(runs=1000, broken=98).holds(tolerance=0.5)
    assert not Evidence(runs=1000, broken=100).holds(tolerance=0.5)


def test_a_rule_that_one_of_many_runs_breaks_is_written_with_its_evidence():
    runs = [*(refund(number) for number in range(199)), run(200, call("refund", {"order_id": "W1000200"}))]
    assert "- {before: refund, call: find_order}  # 199 of 200 runs\n" in learned_text(runs)


def test_rules_need_more_runs_where_too_many_would_fail():
    # Each of these tools is called in one run alone, as new ones will be.
    runs = [*USUAL[:30], *(run(100 + number, call(f"find_{'abcdefgh'[number]}")) for number in range(8))]
    options = Options(requirements=Requirements(runs=20, tolerance=0.0), most_alarms=0.05)
    learner = Learner()
    for one in runs:
        learner.add(one)
    text, (summary,) = learner.result(options)
    assert (summary.runs, summary.needed, summary.criteria) == (38, 40, 0)
    assert text.endswith("criteria: []\n")


def test_an_invented_tool_is_not_allowed_however_often_it_was_called():
    offered = [ToolDefinition(name="find_order")]
    runs = [run(number, call("find_order"), call("find_ordr"), offered=offered) for number in range(30)]
    assert learned(runs)["tools"]["allow_only"] == [{"tool": ["find_order"]}]
    assert "allow_only:  # not allowed: 1 called in one run alone, or never on offer\n" in learned_text(runs)


@each_row("name", ["*", "?", "a*", "x: y\n  - z", "\x1b[31m", "${env:HOME}", "a" * 200, "# x", "drop\u2028table"])
def test_a_hostile_name_means_nothing_but_itself(name: str):
    offered = [ToolDefinition(name="find_order"), ToolDefinition(name=name)]
    runs = [run(number, call("find_order"), call(name, {"kind": "x"}), offered=offered) for number in range(30)]
    criteria = learned(runs)
    policy = Policy.model_validate({"allow_only": criteria["tools"]["allow_only"]})
    assert scored(policy, run(1, call("drop_all_tables"))).value == 0.0
    for criterion in criteria.values():
        parameters = {
            key: value for key, value in criterion.items() if key not in ("name", "evaluator", "when", "scope")
        }
        make_evaluator(str(criterion["evaluator"]), parameters)


def test_a_hostile_service_does_not_get_criteria_for_others():
    criteria = learned(replace(one, service="*") for one in USUAL)
    assert criteria["tools"]["when"] == {"service": "?"}


def test_services_with_like_names_have_criteria_of_their_own():
    text = learned_text(replace(one, service=service) for service in ("Shop A", "shop-a") for one in USUAL)
    assert "name: learned.shop-a-1.tools\n" in text
    assert "name: learned.shop-a-2.tools\n" in text


def test_a_service_without_a_name_has_criteria_without_a_condition():
    assert all("when" not in one for one in learned(replace(one, service=None) for one in USUAL).values())


def test_runs_that_were_cut_off_are_left_out():
    learner = Learner()
    learner.add(replace(USUAL[0], closed_because="shutdown"))
    learner.add(replace(USUAL[0], incomplete="spans are missing"))
    assert (learner.runs, learner.cut_short, learner.calls) == (2, 2, 0)
    assert learner.result(OPTIONS)[0].endswith("criteria: []\n")


SECRETS = {
    "name": "Mei Kovacs",
    "address": "742 Evergreen Terrace",
    "card": "4111 1111 1111 1111",
    "id": "Z-8823-QQ",
    "mail": "mei.kovacs@example.com",
    "text": "She called twice and was very cross about it",
}


@each_row("secret", SECRETS.values(), ids=SECRETS)
def test_a_planted_value_is_never_written(secret: str):
    runs = [
        run(
            number,
            call(
                "find_order",
                {"kind": secret, "list": [secret], "deep": {"level": {secret: secret}}},
                {"found": secret, secret: 1},
            ),
            call("refund", {secret: 1, "target": secret}),
            messages=(user(secret, 0),),
        )
        for number in range(60)
    ]
    text = learned_text(runs)
    assert "refund" in text
    assert secret not in text
    assert not any(word in text for word in secret.split() if len(word) > 4)
