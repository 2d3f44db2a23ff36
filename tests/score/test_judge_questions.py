"""What the evaluators that ask a judge ask, what they settle without one, and what an answer means."""

import hashlib
import json

from msgspec.structs import replace

from tests.rows import each_row
from tests.score.support import expect, expected, tool_call, trajectory
from toolgauge.evaluators.llm_judges import (
    Faithfulness,
    OutputJudge,
    ToolParameterAccuracy,
    ToolSelectionAccuracy,
    TrajectoryJudge,
)
from toolgauge.model.content import NOT_RECORDED, Content, NotRecorded, Recorded, Unparsed
from toolgauge.model.expected import Expected, ExpectedOutput
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.judging import JudgeEvaluator, Question
from toolgauge.model.observations import CallError, ToolDefinition
from toolgauge.model.outcomes import Errored, NotEvaluated, Outcome, Scored
from toolgauge.model.trajectory import Message, ToolCall, Trajectory
from toolgauge.originals import strands
from toolgauge.originals.deepeval import ArgumentCorrectness
from toolgauge.score import prompts

USER = (Message(role="user", text="Refund order A-17, 20 euros", turn=0),)
REFUND = ToolDefinition(
    name="refund",
    description="Refunds an order.",
    parameters={
        "type": "object",
        "properties": {"order": {"type": "string"}, "amount": {"type": "number"}},
        "required": ["order"],
    },
)


def asked(
    evaluator: JudgeEvaluator, run: Trajectory, wanted: Expected | None = None
) -> list[tuple[ToolCall | None, Question | Outcome]]:
    return [one for one in evaluator.questions(run, wanted) if one is not None]


def only_question(evaluator: JudgeEvaluator, run: Trajectory, wanted: Expected | None = None) -> Question:
    ((_, question),) = asked(evaluator, run, wanted)
    assert isinstance(question, Question)
    return question


def only_outcome(evaluator: JudgeEvaluator, run: Trajectory) -> Outcome:
    ((_, outcome),) = asked(evaluator, run)
    assert not isinstance(outcome, Question)
    return outcome


def reason_of(evaluator: JudgeEvaluator, run: Trajectory) -> str:
    outcome = only_outcome(evaluator, run)
    assert isinstance(outcome, NotEvaluated)
    return outcome.reason


def timed(call: ToolCall, start: int, end: int) -> ToolCall:
    return replace(call, start_ns=start, end_ns=end)


def quoted_objects(prompt: str, title: str) -> list[Json]:
    """Read what stands in one quotation of a prompt."""
    begin = prompt.index(f"<<<{title} ")
    body = prompt[prompt.index("\n", begin) + 1 : prompt.index(f" {title}>>>", begin)]
    return [json.loads(line) for line in body.splitlines()[:-1]]


# What the judge is shown


def test_a_call_sees_the_prompt_and_what_had_ended_before_it_and_never_its_own_result():
    run = trajectory(
        timed(tool_call("find", {"order": "A-17"}, result=Recorded("open")), 0, 10),
        timed(tool_call("pay", {}, error=CallError(kind="Timeout", message="gateway down")), 0, 10),
        timed(tool_call("slow", {}, result=Recorded("not yet")), 5, 40),
        timed(tool_call("refund", {"order": "A-17"}, result=Recorded("its own result")), 10, 20),
        messages=USER,
    )
    question = only_question(ToolSelectionAccuracy(tools=("refund",)), run)
    assert quoted_objects(question.prompt, prompts.HISTORY) == [
        {"user": "Refund order A-17, 20 euros"},
        {"call": "find", "arguments": {"order": "A-17"}, "result": "open"},
        {"call": "pay", "arguments": {}, "error": "gateway down"},
    ]
    assert quoted_objects(question.prompt, prompts.TARGET_CALL) == [{"call": "refund", "arguments": {"order": "A-17"}}]
    assert "its own result" not in question.prompt


# What is clear without a judge


def test_a_call_whose_values_the_agent_was_told_needs_no_judge():
    run = trajectory(tool_call("refund", {"order": "A-17", "amount": 20}), messages=USER)
    outcome = only_outcome(ToolParameterAccuracy(), run)
    assert isinstance(outcome, Scored)
    assert (outcome.value, outcome.parts) == (1.0, {"prechecked": 1})
    assert isinstance(asked(ToolParameterAccuracy(precheck=False), run)[0][1], Question)


@each_row(
    "arguments",
    [
        {"order": "A-18"},
        {"order": "A-1"},
        {"order": "17, 20 eur"},
        {"order": ""},
        {"order": "A-17", "notify": True},
        {"order": "A-17", "items": []},
        {"amount": 20},
        {"order": 20},
        {"order": "A-17", "unknown": 20},
    ],
    ids=str,
)
def test_a_value_that_was_not_told_or_does_not_fit_the_schema_goes_to_the_judge(arguments: JsonObject):
    run = trajectory(tool_call("refund", arguments), messages=USER)
    run = replace(run, tools_offered=(REFUND,))
    assert isinstance(asked(ToolParameterAccuracy(), run)[0][1], Question)


def test_what_the_assistant_passed_to_a_tool_itself_is_no_evidence():
    run = trajectory(
        timed(tool_call("find", {"order": "B-99"}), 0, 1),
        timed(tool_call("refund", {"order": "B-99"}), 2, 3),
        messages=(*USER, Message(role="assistant", text="It is B-99", turn=1)),
    )
    assert all(isinstance(said, Question) for _, said in asked(ToolParameterAccuracy(), run))


def test_a_value_from_an_earlier_result_is_evidence_and_one_from_a_later_result_is_not():
    orders: Json = [{"id": "C-5"}]
    found = Recorded({"orders": orders})
    run = trajectory(
        timed(tool_call("refund", {"order": "C-5"}), 0, 1),
        timed(tool_call("find", {}, result=found), 2, 3),
        timed(tool_call("refund", {"order": "C-5"}), 4, 5),
        messages=USER,
    )
    before, _, after = (said for _, said in asked(ToolParameterAccuracy(), run))
    assert isinstance(before, Question)
    assert isinstance(after, Scored)


@each_row(
    ("arguments", "reason"),
    [
        (NOT_RECORDED, "arguments_not_recorded"),
        (NotRecorded("redacted"), "redacted"),
        (Unparsed("{"), "unparsable"),
        (Unparsed("{", "truncated"), "truncated"),
    ],
)
def test_arguments_that_cannot_be_seen_are_not_asked_about(arguments: Content, reason: str):
    run = trajectory(tool_call("refund", arguments=arguments), messages=USER)
    assert reason_of(ToolParameterAccuracy(), run) == reason


def test_without_the_words_of_the_user_nobody_is_asked():
    run = trajectory(tool_call("refund", {"order": "A-17"}))
    for evaluator in (ToolParameterAccuracy(), ToolSelectionAccuracy()):
        assert reason_of(evaluator, run) == "no_content"
    # Calls that were made and not recorded, and a response that was not.
    hidden = replace(trajectory(messages=USER), hidden_turns=2)
    for evaluator in (ToolSelectionAccuracy(), TrajectoryJudge(rubric="Be quick.")):
        assert reason_of(evaluator, hidden) == "no_content"
    for evaluator in (Faithfulness(), OutputJudge(rubric="Be polite.")):
        assert reason_of(evaluator, replace(run, messages=USER)) == "no_content"


# Long conversations


def test_a_long_history_is_cut_from_the_oldest_turn_and_says_so():
    calls = [
        timed(tool_call(f"step_{number}", {}, result=Recorded("x" * 150)), 2 * number, 2 * number + 1)
        for number in range(30)
    ]
    run = trajectory(*calls, timed(tool_call("last", {}), 100, 101), messages=USER)
    question = only_question(ToolSelectionAccuracy(tools=("last",), max_history_chars=1000), run)
    shown = quoted_objects(question.prompt, prompts.HISTORY)
    # The prompt that the call serves stays, then the newest executions as far as there is room.
    assert shown[0] == {"user": "Refund order A-17, 20 euros"}
    assert [one["call"] for one in shown[1:] if isinstance(one, dict)] == ["step_26", "step_27", "step_28", "step_29"]
    assert question.notes == ("history cut: 26 of 31 entries left out, the oldest first",)


# What a verdict means


def test_yes_is_one_and_no_is_zero_and_the_reasoning_stays_out_of_the_explanation():
    judge = ToolParameterAccuracy()
    yes, no = (judge.outcome(QUESTION, {"reasoning": "X-1 was said", "score": score}) for score in ("Yes", "No"))
    assert isinstance(yes, Scored)
    assert isinstance(no, Scored)
    assert (yes.value, no.value, "X-1" in no.explanation) == (1.0, 0.0, False)
    assert no.differences[0].actual is not None
    assert no.differences[0].actual.value == {"label": "No", "reasoning": "X-1 was said"}


QUESTION = Question(instructions="i", prompt="p", form_name="f", form={"type": "object"})


@each_row(
    ("evaluator", "verdict"),
    [
        (ToolParameterAccuracy(), {"reasoning": "r", "score": "yes"}),
        (ToolSelectionAccuracy(), {"reasoning": "r", "score": True}),
        (Faithfulness(), {"reasoning": "r", "score": "Yes"}),
        (TrajectoryJudge(rubric="r"), {"reasoning": "r", "score": 7.5}),
        (TrajectoryJudge(rubric="r"), {"reasoning": "r", "score": float("nan")}),
        (OutputJudge(rubric="r"), {"reasoning": "r", "score": True}),
        (strands.ToolParameterAccuracy(), {"score": "Yes"}),
        (strands.TrajectoryJudge(rubric="r"), {"score": "1", "test_pass": True}),
        (ArgumentCorrectness(), {"verdicts": "yes"}),
    ],
)
def test_a_verdict_of_another_form_is_an_error_and_never_a_score(evaluator: JudgeEvaluator, verdict: JsonObject):
    assert isinstance(evaluator.outcome(QUESTION, verdict), Errored)


# Rubrics


def test_rubric_and_description_are_instructions_and_what_was_expected_is_quoted():
    evaluator = TrajectoryJudge(rubric="Look before you pay.", description="`pay` costs money.")
    wanted = replace(expected(expect("pay", {"order": "A-17"})), answer=ExpectedOutput(value="Paid."))
    run = trajectory(
        tool_call("pay", {"order": "A-17"}, result=Recorded("ok")),
        messages=(*USER, Message(role="assistant", text="I paid.", turn=1)),
    )
    question = only_question(evaluator, run, wanted)
    assert "Look before you pay." in question.instructions
    assert "`pay` costs money." in question.instructions
    call: Json = {"call": "pay", "arguments": {"order": "A-17"}}
    for title, quoted in (
        (prompts.INPUT, {"user": "Refund order A-17, 20 euros"}),
        (prompts.OUTPUT, {"assistant": "I paid."}),
        (prompts.EXPECTED_OUTPUT, {"assistant": "Paid."}),
        (prompts.TRAJECTORY, {**call, "result": "ok"}),
        (prompts.EXPECTED_TRAJECTORY, call),
    ):
        assert quoted_objects(question.prompt, title) == [quoted]
    without = only_question(TrajectoryJudge(rubric="r", include_inputs=False), run)
    assert prompts.INPUT not in without.prompt
    assert prompts.TRAJECTORY not in only_question(OutputJudge(rubric="Be polite."), run).prompt


# Versions: whoever changes a text that a judge is given changes the version of its prompt, and then this table.

SAMPLE = replace(
    trajectory(
        timed(tool_call("find", {"order": "A-17"}, result=Recorded("open")), 0, 1),
        timed(tool_call("refund", {"order": "A-18"}), 2, 3),
        messages=(*USER, Message(role="assistant", text="Done.", turn=2)),
    ),
    tools_offered=(REFUND,),
)
WANTED = replace(expected(expect("refund", {"order": "A-17"})), answer=ExpectedOutput(value="Refunded."))


@each_row(
    ("evaluator", "version", "fingerprint"),
    [
        (ToolParameterAccuracy(tools=("refund",)), "1", "adcb68c8f90d26b6"),
        (ToolSelectionAccuracy(tools=("refund",)), "1", "31ab145f77552a8a"),
        (Faithfulness(), "1", "2d8a78f3c4678e63"),
        (TrajectoryJudge(rubric="R", description="D"), "1", "19bbe1722d240970"),
        (OutputJudge(rubric="R", include_calls=True), "1", "aeaccb701b5d7f6b"),
        (strands.TrajectoryJudge(rubric="R"), "1", "bd2a1967d0b80096"),
        (ArgumentCorrectness(), "1", "9c5444ce7237a247"),
    ],
)
def test_a_changed_prompt_is_a_new_version(evaluator: JudgeEvaluator, version: str, fingerprint: str):
    (*_, (_, question)) = asked(evaluator, SAMPLE, WANTED)
    assert isinstance(question, Question)
    texts = (question.instructions, question.prompt, question.form_name, json.dumps(question.form, sort_keys=True))
    digest = hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]
    assert (evaluator.version, digest) == (version, fingerprint), "a new text needs a new version in judge_prompts.toml"
