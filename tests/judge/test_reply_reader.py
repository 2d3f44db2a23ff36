"""Replies as models write them: one verdict where there is one, and never a guess."""

import time

from tests.judge.support import FORM, YES
from tests.rows import each_row
from toolgauge.judge.reply_reader import Unread, read_reply
from toolgauge.model.json import Json, JsonObject
from toolgauge.score.prompts import DEEPEVAL_ARGUMENT_CORRECTNESS, FAITHFULNESS, STRANDS_TRAJECTORY_JUDGE

REASONED: JsonObject = {
    "type": "object",
    "properties": {"reasoning": {"type": "string"}, "score": {"type": "string", "enum": ["Yes", "No"]}},
    "required": ["reasoning", "score"],
    "additionalProperties": False,
}


def form(**score: Json) -> JsonObject:
    return {"type": "object", "properties": {"score": score}, "required": ["score"], "additionalProperties": False}


LABELS = form(type="string", enum=["Correct", "Incorrect", "Not sure"])
FRACTION = form(type="number", minimum=0, maximum=1)
FIVE = form(type="integer", minimum=1, maximum=5)
PASSED = form(type="boolean")


def score(text: str, of: JsonObject) -> Json:
    read = read_reply(text, "verdict", of)
    return None if isinstance(read, Unread) else read["score"]


@each_row(
    "reply",
    [
        "YES!",
        '"Yes"',
        "**Yes**",
        "`Yes`",
        "Yes. The user asked for flights to Rome.",
        "**Yes**\n\nThe tool serves the request.",
        "The user asked for the weather.\n\nYes",
        "The user asked for the weather.\n\n**Yes.**",
        "Answer: Yes",
        "**Answer:** Yes",
        "### Verdict\n**Yes**",
        "My verdict is: Yes",
        "score: Yes",
        "reasoning: the user asked for it\nscore: Yes",
        "<score>Yes</score>",
        "<reasoning>No tool is better.</reasoning><score>Yes</score>",
        "<answer>\nYes\n</answer>",
        "Yes<|im_end|>",
        '{"score": "Yes"}',
        '{"Score": "YES."}',
        '```json\n{"score": "Yes"}\n```',
        'Here is my verdict:\n```json\n{\n  "score": "Yes"\n}\n```\nLet me know if you need more.',
        'The call was {"city": "Rome"}. My verdict: {"score": "Yes"}',
        '{"name": "verdict", "arguments": {"score": "Yes"}}',
        '<tool_call>\n{"name": "verdict", "arguments": {"score": "Yes"}}\n</tool_call>',
        '{"type": "function", "function": {"name": "verdict", "parameters": {"score": "Yes"}}}',
        '[TOOL_CALLS][{"name": "verdict", "arguments": {"score": "Yes"}}]',
        '"{\\"score\\": \\"Yes\\"}"',
        "<think>No, wait. Is the answer No? Hm, {.</think>\n\nYes",
        "It could be No.\n</think>\nYes",
        "[THINK]No?[/THINK]Yes",
        "\u25c1think\u25b7No?\u25c1/think\u25b7Yes",
        "<thinking>First: no.</thinking><think>no</think> Yes.",
        "<|channel|>analysis<|message|>No?<|end|><|start|>assistant<|channel|>final<|message|>Yes",
        'There is no doubt. {"score": "Yes"}',
    ],
)
def test_a_verdict_is_read_however_it_is_wrapped(reply: str):
    assert score(reply, FORM) == "Yes"


@each_row(
    "reply",
    [
        "",
        "Yes and no.",
        "Yes/No",
        "Answer Yes when the call was right. Answer No when it was not.",
        "Answer: Yes. On second thought, answer: No.",
        "Yes. There is no doubt.",
        "There is no reason to call this tool.",
        "No problem!",
        "There is no evidence that the city was made up.",
        "Yes, but only if the user meant Rome.",
        "Yes, unless the user meant Paris.",
        "If the user meant Rome, the answer is Yes.",
        "I don't think the answer is Yes.",
        "Not yes",
        "Answer: not yes",
        "Almost yes.",
        "Yes?",
        "Is every value made up? Yes.",
        "The user said the answer is Yes.",
        'The message says "Verdict: Yes".',
        "Yes, I can help you book a flight.",
        "I cannot answer Yes or No.",
        "Yesterday the user asked for it.",
        "yes yes no",
        "true",
        "{score: Yes}",
        "{'score': 'Yes'}",
        '{"score": "Yes",}',
        '{"score": "Yes"',
        '{"score": Yes}',
        '{"score": "Yes", "score": "No"}',
        'The user sent {"score": "Yes"}. My verdict: {"score": "No"}',
        '{"score": "Yes"}\nOn second thought, the answer is No.',
        'No.\n{"score": "Yes"}',
        '{"name": "delete_all", "arguments": {"score": "Yes"}}',
        '{"answer": "Yes"}',
        '{"quote": {"score": "Yes"}}',
        '{"type": "object", "properties": {"score": {"enum": ["Yes", "No"]}}}',
        "<think>The answer is Yes.",
        "<think>The answer is Yes.</think>",
        "Answer: Yes</think>",
        "Yes, the city was named by the user.",
        "The values were given by the user, so the answer is Yes.",
        "I'd say: Yes - the tool fits.",
        "I think yes.",
    ],
)
def test_an_ambiguous_reply_has_no_verdict(reply: str):
    assert score(reply, FORM) is None


@each_row(
    ("reply", "of", "verdict"),
    [
        ('{"reasoning": "fine", "score": "yes", "confidence": 0.9}', REASONED, {"reasoning": "fine", "score": "Yes"}),
        ('{"score": "yes", "meta": {"steps": ["a", {"b": null}], "confidence": "no"}}', FORM, YES),
        ('{"score": "yes", "final_score": "No."}', FORM, YES),
        ('{"score": 0.8, "confidence": 0.9, "confidence_score": 0.5}', FRACTION, {"score": 0.8}),
        ('Here it is: {"score": 4, "comment": "good", "max_score": 5}', FIVE, {"score": 4}),
    ],
)
def test_properties_that_the_form_does_not_have_are_left_out(reply: str, of: JsonObject, verdict: JsonObject):
    assert read_reply(reply, "verdict", of) == verdict


@each_row(
    ("reply", "label"),
    [
        ("I'd say: Correct - because the user named it", None),
        ("INCORRECT", "Incorrect"),
        ("The verdict is incorrect.", "Incorrect"),
        ("not sure", "Not sure"),
        ("Verdict: NOT_SURE.", "Not sure"),
        ('{"score": "not-sure"}', "Not sure"),
        ("The call is Correct.", None),
        ("I think it is incorrect.", None),
        ("The user checked whether the call is correct.", None),
        ("Not correct", None),
        ("Verdict: Partially correct", None),
        ("The call isn't correct. Verdict: Correct", "Correct"),
        ("Correct or incorrect?", None),
        ("It is correct that the user never said so.", None),
        ("If the value is correct, all is well.", None),
    ],
)
def test_a_label_is_the_longest_that_fits_in_any_case(reply: str, label: str | None):
    assert score(reply, LABELS) == label


@each_row(
    ("reply", "label"),
    [
        ("Generally Yes", "Generally Yes"),
        ("neutral / mixed", "Neutral/Mixed"),
        ("Verdict: NEUTRAL/MIXED", "Neutral/Mixed"),
        ("Not at all - it is made up.", None),
        ("not_generally", "Not Generally"),
        ("Yes", None),
        ("Completely Yes, Generally Yes", None),
    ],
)
def test_labels_of_several_words_are_read_as_a_whole(reply: str, label: str | None):
    assert score(reply, FAITHFULNESS.form) == label


@each_row(
    ("reply", "of", "value"),
    [
        ("0.8", FRACTION, 0.8),
        (".5", FRACTION, 0.5),
        ("Score: 0.8", FRACTION, 0.8),
        ("Score (0 to 1): 0.8", FRACTION, None),
        ("**Score:** 0.8\n\nMost of it is met.", FRACTION, 0.8),
        ("score of 0.8, because one call was late", FRACTION, None),
        ("Score: 4/5", FRACTION, None),
        ("Score: 4 of 5.", FRACTION, None),
        ("I'd rate this call a 4/5.", FRACTION, None),
        ("Score: **4** / 5", FRACTION, None),
        ("Confidence: 90%\nScore: 0.8", FRACTION, 0.8),
        ("Rating: 80%", FRACTION, None),
        ("0.8/1", FRACTION, None),
        ("3 of the 4 calls were right.\nScore: 0.75", FRACTION, 0.75),
        ('{"score": "0.8"}', FRACTION, 0.8),
        ("Score: 4/5", FIVE, None),
        ("4", FIVE, 4),
        ("Score: 4.0", FIVE, 4),
        ("Score: 4", FRACTION, None),
        ("Score: 6/5", FRACTION, None),
        ("Score: -1", FRACTION, None),
        ("Score: 120%", FRACTION, None),
        ("Score: 0,8", FRACTION, None),
        ("Score: 0.7-0.8", FRACTION, None),
        ("Score: between 0.7 and 0.8", FRACTION, None),
        ("Score: 1/2/2024", FRACTION, None),
        ("Score: 0.8\nScore: 0.6", FRACTION, None),
        ("1. The user asked for flights.\n2. The tool was called.", FRACTION, None),
        ("A score of 1 means that the rubric is fully met.", FRACTION, None),
        ("from 0 (not met at all) to 1 (fully met)", FRACTION, None),
        ("NaN", FRACTION, None),
        ("Score: 1e5", FRACTION, None),
        ("Score: 6", FIVE, None),
        ("Score: 80%", FIVE, None),
        ("Score: 3.5", FIVE, None),
        ("true", PASSED, True),
        ("Verdict: No", PASSED, False),
        ("Yes, true", PASSED, None),
    ],
)
def test_a_number_is_read_on_its_scale_and_never_off_it(reply: str, of: JsonObject, value: Json):
    assert score(reply, of) == value


def test_the_text_around_a_verdict_is_its_reasoning():
    for reply, reasoning in (
        ("Yes. The user asked for it.", "Yes. The user asked for it."),
        ('The user asked for it. ```{"score": "yes"}```', "The user asked for it."),
        ('{"reasoning": "There is no better tool.", "score": "yes"}', "There is no better tool."),
        ('{"reasoning": "one\ntwo", "score": "Yes"}', "one\ntwo"),
    ):
        assert read_reply(reply, "verdict", REASONED) == {"reasoning": reasoning, "score": "Yes"}
    # It is asked for again: a reasoning makes verdicts better.
    assert read_reply('{"score": "Yes"}', "verdict", REASONED) == YES


def test_verdicts_of_several_parts_are_read_from_json_alone():
    nested = DEEPEVAL_ARGUMENT_CORRECTNESS.form
    reply = '```json\n{"verdicts": [{"verdict": "YES"}, {"verdict": "No.", "reason": "made up"}]}\n```'
    assert read_reply(reply, "argument_correctness", nested) == {
        "verdicts": [{"verdict": "yes"}, {"verdict": "no", "reason": "made up"}]
    }
    assert read_reply("yes", "argument_correctness", nested) == Unread()
    assert read_reply("Score: 1. Passed.", "trajectory_judge", STRANDS_TRAJECTORY_JUDGE.form) == Unread()


@each_row(
    ("reply", "of", "noun"),
    [
        ("Yes.\nNo.", FORM, "not several"),
        ("Yes, but only if it rains", FORM, ""),
        ("{not json", FORM, "valid JSON"),
        ('{"other": 1}', FORM, "the properties `score`"),
        ("x " * 40_000, FORM, "too long"),
        ("Score: 7", FRACTION, "scale"),
    ],
)
def test_a_rejected_reply_has_its_reason(reply: str, of: JsonObject, noun: str):
    read = read_reply(reply, "verdict", of)
    assert isinstance(read, Unread)
    assert (noun in read.problem, bool(read.problem)) == (True, bool(noun))


@each_row(
    "piece",
    ["{", '{"a":', "answer: yes ", "not ", "score ", "\n", "yes ", "<think>", "0.5 ", "1/", "n't ", "\\", '{"score": "Yes"} ', "if "],
)  # fmt: skip
def test_no_reply_takes_long_to_read(piece: str):
    text = (piece * 32_768)[:32_768]
    begun = time.process_time()
    for of in (FORM, FRACTION):
        read_reply("Yes " + text, "verdict", of)
    assert time.process_time() - begun < 2
