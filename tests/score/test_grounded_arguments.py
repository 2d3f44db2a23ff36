"""`grounded_arguments` finds values that an agent cannot have from what it had seen."""

import pytest
from msgspec.structs import replace

from tests.rows import each_row
from tests.score.support import agent_run, judge, not_evaluated, scored, sides, tool_call, trajectory, user
from toolgauge.evaluators.grounded_arguments import GroundedArguments
from toolgauge.model.content import NOT_RECORDED, Content, NotRecorded, Recorded, Unparsed
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.left_out import LeftOut, token_hash
from toolgauge.model.observations import CallError, ToolDefinition
from toolgauge.model.outcomes import NotEvaluated, Scored
from toolgauge.model.records import SpanRef
from toolgauge.model.trajectory import Message, Run, ToolCall, Trajectory

WRITES = ("pay", "book", "cancel_order")


def asked(text: str, arguments: Json, *, name: str = "pay", role: str = "user") -> Trajectory:
    """One call after one message."""
    message = Message(role="system" if role == "system" else "user", text=text, turn=0)
    messages = (message,) if role == "user" else (message, user("go on", 0))
    return trajectory(tool_call(name, arguments), messages=messages, writing_tools=WRITES)


def after(result: Content, arguments: Json, *calls: ToolCall) -> Trajectory:
    """A call that changes state after one that returned something."""
    reading = tool_call("get_order", {"full": True}, result=result)
    return trajectory(reading, *calls, tool_call("pay", arguments), messages=(user("go on", 0),), writing_tools=WRITES)


def is_found(judged: Trajectory) -> bool:
    return scored(GroundedArguments(), judged).value == 1.0


def test_an_id_that_the_user_named_is_grounded():
    outcome = scored(GroundedArguments(), asked("Cancel order A-17, please.", {"order_id": "A-17"}))
    assert (outcome.value, outcome.parts) == (1.0, {"values": 1, "not_found": 0, "from_user": 1})


def test_an_invented_id_is_named_with_its_path():
    judged = asked("Cancel order A-17.", {"order_id": "A-17", "parts": [{"part_id": "A-17"}, {"part_id": "P-9"}]})
    outcome = scored(GroundedArguments(), judged)
    assert outcome.value == pytest.approx(2 / 3)
    assert "`parts[1].part_id`" in outcome.explanation
    (difference,) = outcome.differences
    assert (difference.where, *sides(difference)) == ("pay: parts[1].part_id", "<absent>", "P-9")


@each_row(
    ("text", "value"),
    [
        ("order a-17.", "A-17"),
        ("order A17", "A-17"),
        ("the order W7181492", "#W7181492"),
        ("my card ending in 7334, the credit card", "credit_card_7334"),
        ("the order 9502126", "#W9502126"),
        ("the order #W9502126", 9502126),
        ("the order 88-2137", "(R) 88-2137"),
        ("the order B_K3F9Q2", "#B-K3F9Q2"),
        ("parcel 40017, please", "P40017"),
        ("it\u2019s \u201cA-17\u201d", "A-17"),
    ],
)
def test_an_id_may_be_written_in_other_ways(text: str, value: Json):
    assert is_found(asked(text, {"order_id": value}))


@each_row(
    ("text", "value"),
    [
        ("order A-17", "A-171"),
        ("order 7181492", "W7181493"),
        ("cards 1 and 2", "card_12"),
        ("order 9502", "#W9502"),
        ("orders #A9502126 and #B9502126", "9502126"),
        ("order #A9502126", "#W9502126"),
        ("order 9502126", "WX9502126"),
        ("the flower shop", "Aflower1"),
        ("12 people, 9 nights", "A-17"),
    ],
)
def test_a_part_of_an_id_is_another_id(text: str, value: str):
    assert not is_found(asked(text, {"order_id": value}))


@each_row(
    ("text", "value"),
    [
        ("It costs $1,200.50 in all.", 1200.5),
        ("It costs 1200.50", "1200.5"),
        ("we are twelve", 12),
        ("a budget of 5k", 5000),
        ("500 less 299", 201),
        ("two tickets for 150", 300),
        ("15 percent", 0.15),
        ("50% of the 240 I paid", 120.0),
        ("it was 240, now 20 % off", 192.0),
        ("half of the 40.00", 20.0),
        ("two thirds of 40", 26.67),
        ('{"total": 19.99, "discount_percent": 15}', 16.99),
        ("at 298K and 1.5kg", 1.5),
    ],
)
def test_numbers_are_found_however_they_are_written_and_may_be_computed(text: str, value: Json):
    assert is_found(asked(text, {"amount": value}))


@each_row(
    ("text", "amount"),
    [
        ("It costs $1,200.50 in all.", 777),
        # No share is named: 50 and 20 are other numbers, and `the third` is a place in a list.
        ("order 50 cost 240", 119.5),
        ("the third item cost 40", 13.33),
        ("100% of the 240", 111),
        ("half of the 240", 72),
    ],
)
def test_a_number_that_cannot_be_computed_is_not_found(text: str, amount: float):
    assert not is_found(asked(text, {"amount": amount}))


@each_row(
    "text",
    [
        "on May 16",
        "on May 16th, 2024",
        "5/16/2024",
        "16.5.",
        "2024-05-16T10:00",
        "May 14-16",
    ],
)
def test_a_day_is_found_in_any_notation(text: str):
    assert is_found(asked(text, {"date": "2024-05-16"}))


@each_row("text", ["tomorrow", "next week", "from May 13 for 3 nights", "on Friday"])
def test_days_that_the_user_names_by_their_distance_may_be_worked_out(text: str):
    assert is_found(asked(text, {"date": "2024-05-16"}))


def test_names_and_addresses_are_found_by_their_parts():
    text = "I am Anna Moore, 901 Pine Lane, Suite 360, anna.moore@example.com"
    arguments: Json = {
        "first_name": "Anna",
        "last_name": "Moore",
        "street": "901 Pine Ln",
        "email": "anna.moore@example.com",
    }
    assert scored(GroundedArguments(), asked(text, arguments)).parts == {"values": 4, "not_found": 0, "from_user": 4}
    assert not is_found(asked(text, {"last_name": "Miller"}))
    assert not is_found(asked(text, {"street": "902 Pine Lane"}))


@each_row(
    "text",
    ["am 16. Dezember 2024", "2024\u5e7412\u670816\u65e5", "domani", "on the 16th", "in a fortnight", "Q4", "at 5pm"],
)
def test_days_that_cannot_be_read_from_words_are_no_evidence(text: str):
    assert is_found(asked(text, {"date": "2024-12-16"}))


def test_long_text_is_looked_at_for_its_ids_only():
    text = "The customer of order {} wrote that the parcel arrived broken and that they want to have 20 back at once"
    judged = asked("Refund order W7181492", {"order_id": "W7181492", "note": text.format("W7181492")})
    assert scored(GroundedArguments(), judged).parts["values"] == 2
    assert not is_found(asked("Refund order W7181492", {"note": text.format("W7181493")}))


def test_what_any_conversation_has_is_not_looked_for():
    free: Json = {"a": True, "b": None, "c": "", "d": 3, "e": "USD", "f": "10:30", "g": "urgent", "h": [], "i": {}}
    assert not_evaluated(GroundedArguments(), asked("hello", free)) == "no_calls"


@each_row("result", [Recorded({"orders": ["A-17"]}), Recorded("order A-17\nis here"), Unparsed("A-17 {")])
def test_results_of_earlier_calls_have_been_seen(result: Content):
    judged = after(result, {"order_id": "A-17"})
    assert scored(GroundedArguments(), judged).parts["from_result"] == 1
    # Calls of other agents, which are left out, may have returned it.
    assert not_evaluated(GroundedArguments(), replace(judged, calls=judged.calls[1:])) == "incomplete"
    failed = tool_call("book", {}, error=CallError(kind="tool_error", message="use order A-17"))
    assert is_found(after(Recorded("none"), {"order_id": "A-17"}, failed))


def test_calls_of_one_model_output_do_not_see_each_others_results():
    first = tool_call("get_order", {}, result=Recorded({"order_id": "A-17"}), turn=0)
    second = tool_call("pay", {"order_id": "A-17"}, turn=0)
    judged = trajectory(first, second, messages=(user("go on", 0),), writing_tools=WRITES)
    assert not is_found(judged)


def test_what_the_agent_wrote_grounds_nothing():
    claimed = Message(role="assistant", text="Your order is A-17.", turn=0)
    repeated = tool_call("pay", {"order_id": "A-17"}, result=Recorded("done"))
    judged = trajectory(repeated, repeated, messages=(user("go on", 0), claimed), writing_tools=WRITES)
    assert [outcome.value for outcome in judge(GroundedArguments(), judged) if isinstance(outcome, Scored)] == [0, 0]


def test_system_prompt_schema_and_configuration_have_been_seen():
    assert is_found(asked("Refunds go to account ACC-1001.", {"account_id": "ACC-1001"}, role="system"))
    judged = asked("go on", {"account_id": "ACC-1001", "mode_id": "std_01"})
    assert not is_found(judged)
    tool = ToolDefinition(
        name="pay",
        parameters={"properties": {"mode_id": {"enum": ["std_01", "std_02"]}, "account_id": {"default": "ACC-1001"}}},
    )
    assert is_found(replace(judged, tools_offered=(tool,)))
    known = GroundedArguments(known=("ACC-1001 and std_01",))
    assert scored(known, judged).parts == {"values": 2, "not_found": 0, "from_known": 2}


@each_row(
    ("description", "is_shown"),
    [
        ("The order, such as '#W0000123'.", False),
        ("The order, e.g. A-17 or #W0000123", False),
        ("The order (for example: #W0000123).", False),
        ("Orders begin with #, examples: ['A-17', '#W0000123']", False),
        ("The order. Test orders go to #W0000123.", True),
    ],
)
def test_an_id_that_a_schema_gives_as_an_example_grounds_nothing(description: str, is_shown: bool):  # noqa: FBT001 (a parameter of the test)
    judged = asked("cancel it", {"order_id": "#W0000123"})
    described = ToolDefinition(name="pay", description=description)
    assert is_found(replace(judged, tools_offered=(described,))) == is_shown
    inside = ToolDefinition(name="pay", parameters={"properties": {"order_id": {"description": description}}})
    assert is_found(replace(judged, tools_offered=(inside,))) == is_shown


def test_calls_that_only_read_are_judged_by_their_ids():
    arguments: Json = {"order_id": "A-18", "date": "2024-05-16", "city": "Berlin", "query": "W7181499"}
    judged = asked("Where is order A-17?", arguments, name="get_order")
    assert scored(GroundedArguments(), judged).parts == {"values": 1, "not_found": 1}
    assert scored(GroundedArguments(reading="all"), judged).parts["values"] == 2
    assert not_evaluated(GroundedArguments(reading="none"), judged) == "no_calls"


@each_row("exempt", ["order_id", "pay.*", "pay.lines.order_id", "*_id"])
def test_arguments_can_be_exempt(exempt: str):
    judged = asked("go on", {"lines": [{"order_id": "A-18"}]})
    assert not is_found(judged)
    assert not_evaluated(GroundedArguments(exempt=(exempt,)), judged) == "no_calls"


@each_row(
    "text",
    [
        "import requests\nbody = requests.get(base)\nprint(body[:48211])",
        "total = compute('48211', rate=17)",
        "SELECT name FROM orders WHERE number = 48211",
        "```\nls -l | head -n 48211\n```",
        "TIMEOUT_MS = 48213",
        "const limit: number = 48213",
        "    timeout: 48213,",
        "return compute(item_id=48213)",
        "raise ValueError('48213')",
        "def wait(limit=48213, *, tries: int = 3) -> bool:",
        "assert f(4821) == 77123",
        "#define LIMIT 48213",
        "<div id='a48213'>hi</div>",
        "<Item id={48213} />",
    ],
)
def test_code_is_not_judged_by_its_form(text: str):
    assert "no_calls" in str(not_evaluated(GroundedArguments(), asked("Work it out.", {"text": text})))


def asks_agent(name: str, arguments: Json, *runs: Run, agents: tuple[str, ...] = ()) -> Trajectory:
    """A call to another agent, which `runs` within it."""
    judged = asked("Work it out.", arguments, name=name)
    call = replace(judged.calls[0], run=SpanRef("1" * 32, "a" * 16), start_ns=10, end_ns=20)
    return replace(judged, calls=(call,), runs=runs, agents=agents, writing_tools=frozenset((name,)))


@each_row("name", ["research_agent", "transfer_to_billing", "delegate_work", "callSubagent", "Researcher"])
def test_a_prompt_to_another_agent_is_not_judged(name: str):
    judged = asks_agent(name, {"task": "Find papers 48211 to X48219 about it."}, agents=("main", "Researcher"))
    assert "no_calls" in str(not_evaluated(GroundedArguments(), judged))


def test_a_tool_within_which_an_agent_ran_is_an_agent():
    outer = run("a" * 16, None, 0, 30)
    inner = run("b" * 16, outer.span, 12, 18)
    arguments: Json = {"task": "Find papers 48211 to X48219 about it."}
    assert "no_calls" in str(not_evaluated(GroundedArguments(), asks_agent("look_into", arguments, outer, inner)))
    later = replace(inner, start_ns=25, end_ns=28)
    assert not is_found(asks_agent("look_into", arguments, outer, later))


def delegated(task: str, prompt: str, asked_for: str) -> Trajectory:
    """A manager that gives a sub-agent a task, with which it cancels order X48219."""
    outer = replace(run("a" * 16, None, 0, 30), prompt=asked_for)
    inner = replace(run("b" * 16, outer.span, 12, 18), prompt=prompt)
    asks = replace(tool_call("worker", {"task": task}, result=Recorded("done"), turn=0), result_turn=2)
    cancels = tool_call("cancel", {"order_id": "X48219"}, turn=1)
    messages = (Message("user", asked_for, 0, 1), Message("user", prompt, 1, 12))
    judged = trajectory(asks, cancels, messages=messages, writing_tools=("worker", "cancel"))
    first, second = judged.calls
    calls = (
        replace(first, run=outer.span, start_ns=10, end_ns=20),
        replace(second, run=inner.span, start_ns=14, end_ns=15),
    )
    return replace(judged, calls=calls, runs=(outer, inner))


@each_row(
    ("task", "prompt", "asked_for", "is_grounded"),
    [
        ("Cancel order X48219", "Cancel order X48219", "Cancel my order", False),
        ("Cancel order X48219", "New task:\nCancel order X48219\nBe quick.", "Cancel my order", False),
        ("Cancel order X48219", "Cancel order X48219", "Cancel X48219", True),
        ("Cancel the order", "Cancel the order\nOrder of this customer: X48219", "Cancel my order", True),
    ],
)
def test_an_id_that_an_agent_invented_for_a_sub_agent_stays_invented(
    task: str,
    prompt: str,
    asked_for: str,
    is_grounded: bool,  # noqa: FBT001 (the value under test)
):
    outcomes = judge(GroundedArguments(), delegated(task, prompt, asked_for))
    assert [one.value == 1 for one in outcomes if isinstance(one, Scored)] == [is_grounded]


def run(span_id: str, above: SpanRef | None, *times: int) -> Run:
    return agent_run(SpanRef("1" * 32, span_id), above, times=(times[0], times[1]))


def test_a_call_that_failed_is_judged_where_it_left_what_was_looked_up():
    failed = CallError(kind="tool_error", message="not allowed")
    looked_up = tool_call("get_order", {"order_id": "A-17"}, result=Recorded("open"))
    wrong = tool_call("cancel_order", {"order_id": "A-18", "payment_id": "card_1"}, error=failed)
    judged = trajectory(looked_up, wrong, messages=(user("my order A-17", 0),), writing_tools=WRITES)
    _, second = judge(GroundedArguments(), judged)
    assert isinstance(second, Scored)
    assert (second.value, second.parts) == (0.0, {"values": 1, "not_found": 1})
    alone = trajectory(wrong, messages=(user("my order A-17", 0),), writing_tools=WRITES)
    assert not_evaluated(GroundedArguments(), alone) == "no_calls"


@each_row(
    ("result", "reason"),
    [
        (NOT_RECORDED, "results_not_recorded"),
        (NotRecorded("redacted"), "redacted"),
        (Unparsed("A-1", "truncated"), "truncated"),
    ],
)
def test_a_value_may_be_in_a_result_that_was_not_kept(result: Content, reason: str):
    judged = after(result, {"order_id": "A-17"})
    assert not_evaluated(GroundedArguments(), judged) == reason
    assert is_found(replace(judged, messages=(user("order A-17", 0),)))


def test_without_any_text_of_a_user_nothing_is_missing():
    judged = trajectory(tool_call("pay", {"order_id": "A-17"}), writing_tools=WRITES)
    assert not_evaluated(GroundedArguments(), judged) == "no_content"


def test_one_trace_of_a_conversation_is_no_evidence_of_what_was_never_seen():
    judged = replace(asked("Yes, do it.", {"order_id": "A-17"}), conversation_id="c-1")
    assert not_evaluated(GroundedArguments(), judged) == "incomplete"
    assert not is_found(replace(judged, scope="conversation"))
    assert not is_found(replace(judged, has_beginning=True))


def test_what_users_sent_beside_text_may_have_held_it():
    pictured = replace(asked("Pay the bill in this picture.", {"order_id": "A-17"}), has_media=True)
    for judged in (pictured, asked("Pay this. [image]", {"order_id": "A-17"}), asked("", {"order_id": "A-17"})):
        assert not_evaluated(GroundedArguments(), judged) == "no_content"


def test_ids_of_texts_that_were_cut_are_found_and_others_stay_open():
    left_out = LeftOut(hashes=token_hash("a-17").to_bytes(8, "big"), texts=1, is_complete=False)
    assert is_found(replace(asked("go on", {"order_id": "A-17"}), left_out=left_out))
    other = replace(asked("go on", {"order_id": "B-2"}), left_out=left_out)
    assert not_evaluated(GroundedArguments(), other) == "truncated"


def test_large_and_deep_arguments_are_judged_in_part():
    deep: Json = "A-18"
    for _ in range(5000):
        deep = [deep]
    assert not is_found(asked("A-17", {"order_id": deep}))
    results = judge(GroundedArguments(), after(Recorded(deep), {"order_id": "A-17"}))
    assert [one.reason for one in results if isinstance(one, NotEvaluated)] == ["truncated"]
    many = scored(GroundedArguments(), asked("A-17", {"ids": [f"X-{number}" for number in range(1001)]}))
    assert (many.parts["values"], len(many.differences)) == (1000, 20)
    assert "first 1000 values" in many.explanation


@each_row("mask", ["****", "[REDACTED]", "<EMAIL_ADDRESS>", "j***@x.com", "[REDACTED_PERSON_1]"])
def test_a_value_that_was_masked_is_not_judged(mask: str):
    judged = judge(GroundedArguments(), asked("Write to Ann.", {"customer_id": mask}))
    assert judged == [NotEvaluated(reason="redacted", explanation="values of `pay` were redacted: `customer_id`")]


@each_row("schema", [{"type": "integer"}, {"type": "string", "format": "email"}])
def test_a_digest_where_no_id_is_taken_is_not_judged(schema: Json):
    hashed: Json = {"to": [{"customer_id": "5f4dcc3b5aa765d61d8327deb882cf99"}]}
    items: Json = {"type": "array", "items": {"properties": {"customer_id": schema}}}
    tool = ToolDefinition(name="pay", parameters={"properties": {"to": items}})
    for judged in (
        replace(asked("Write to Ann.", hashed), tools_offered=(tool,)),
        replace(asked("Write to Ann.", hashed), registered_tools={"pay": tool}),
    ):
        assert not_evaluated(GroundedArguments(), judged) == "redacted"


@each_row(
    "result",
    [
        # Anthropic, MCP, OpenAI, Gemini, Bedrock, the AI SDK; then what is left of pictures in exports.
        [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBOR0"}}],
        {"content": [{"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}]},
        {"inlineData": {"mimeType": "image/jpeg", "data": "/9j/4AAQSkZJRg=="}},
        [{"image": {"format": "png", "source": {"bytes": "..."}}}],
        [{"type": "text", "text": "the scan:"}, {"type": "image", "data": "[omitted]", "mimeType": "image/png"}],
        {"type": "resource", "resource": {"uri": "file:///bill.pdf", "mimeType": "application/pdf", "blob": "..."}},
        [{"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0x"}}],
        "data:image/png;base64,iVBORw0KGgo=",
        "iVBORw0KGgoAAAANSUhEUg",
        "[image]",
        "(screenshot removed)",
        "@@@langfuseMedia:type=image/jpeg|id=m-1|source=base64_data_uri@@@",
        {"screenshot": "<truncated>"},
    ],
)
def test_values_may_be_read_off_pictures_and_files_in_results(result: Json):
    assert not_evaluated(GroundedArguments(), after(Recorded(result), {"order_id": "A-17"})) == "no_content"


@each_row(
    "result",
    [
        {"product": "lamp", "image_url": "https://x.example/y.png"},
        [{"type": "file", "name": "scan.png"}, {"type": "blob", "path": "a.pdf", "sha": "ab12"}],
        {"files": [{"mimeType": "application/pdf", "name": "bill.pdf", "id": "1"}]},
        "see ![image](https://x.example/y.png) (PDF)",
        {"screenshot": "https://x.example/y.png"},
    ],
)
def test_links_to_pictures_and_lists_of_files_show_nothing(result: Json):
    assert not is_found(after(Recorded(result), {"order_id": "A-17"}))


@each_row(("name", "arguments"), [("computer", {"action": "screenshot"}), ("browser_take_screenshot", {})])
def test_a_screenshot_is_a_picture_whatever_was_recorded_of_it(name: str, arguments: JsonObject):
    looked = tool_call(name, arguments, result=Recorded("done"))
    paying = tool_call("pay", {"order_id": "A-17"})
    judged = trajectory(looked, paying, messages=(user("go on", 0),), writing_tools=WRITES)
    assert not_evaluated(GroundedArguments(), judged) == "no_content"


_UUID = "6d1f0a52-6b1c-4d3e-9c55-8b6b0f9f2c11"


@each_row(
    ("name", "value"),
    [
        *((name, _UUID) for name in ("requestId", "client_token", "newClientOrderId", "X-Request-ID", "dedup_key")),
        ("client_token", "01ARZ3NDEKTSV4RRFFQ69G5FAV"),
        ("request_id", "req_8f3a9c2d1b4e"),
        ("request_id", "V1StGXR8_Z5jdHi6B-myT"),
    ],
)
def test_keys_that_a_client_makes_up_are_not_judged(name: str, value: str):
    assert not_evaluated(GroundedArguments(), asked("go on", {name: value})) == "no_calls"


@each_row(
    ("name", "value"),
    [
        *((name, _UUID) for name in ("order_id", "customer_id", "client_id", "client_account_id", "pull_request_id")),
        ("request_id", "REQ-99132"),
        ("client_order_id", "W9502126"),
    ],
)
def test_ids_of_things_that_exist_are_judged_whatever_their_form(name: str, value: str):
    assert not is_found(asked("go on", {name: value}))
