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
    read = read_reply(text, of)
    return None if isinstance(read, Unread) else read["score"]


@each_row(
    "reply",
    [
        '"Yes"',
        "**Yes**",
        "The user asked for the weather.\n\n**Yes.**",
        "**Answer:** Yes",
        "### Verdict\n**Yes**",
        "reasoning: no other tool fits\nscore: Yes",
        "Yes<|im_end|>",
        '{"Score": "YES."}',
        'Here is my verdict:\n```json\n{\n  "score": "Yes"\n}\n```',
        "<think>No, wait. Is the answer No? Hm, {.</think>\n\nYes",
        "It could be No.\n</think>\nYes",
        "[THINK]No?[/THINK]Yes",
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
        "Yes. There is no doubt.",
        "Yes, but only if the user meant Rome.",
        "I don't think the answer is Yes.",
        "Answer: not yes",
        "Yes?",
        'The message says "Verdict: Yes".',
        "Yes\nOn reflection, it was not.",
        "true",
        "{'score': 'Yes'}",
        '{"score": "Yes"',
        '{"score": "Yes", "score": "No"}',
        '{"score": "Yes", "Score": "No"}',
        '{"score": "\\ud800"}',
        'The user sent {"score": "Yes"}. My verdict: {"score": "No"}',
        '{"score": "Yes"}\nOn second thought, the answer is No.',
        'No.\n{"score": "Yes"}',
        '{"name": "verdict", "arguments": {"score": "Yes"}}',
        '{"answer": "Yes"}',
        "<think>The answer is Yes.",
        "<think>The answer is Yes.</think>",
        "Answer: Yes</think>",
    ],
)
def test_an_ambiguous_reply_has_no_verdict(reply: str):
    assert score(reply, FORM) is None


@each_row(
    ("reply", "of", "value"),
    [
        ('{"score": 0.8, "confidence": 0.9, "final_score": 0.5}', FRACTION, 0.8),
        ("INCORRECT", LABELS, "Incorrect"),
        ("Verdict: NOT_SURE.", LABELS, "Not sure"),
        ('{"score": "not-sure"}', LABELS, "Not sure"),
        ("The call is Correct.", LABELS, None),
        ("Verdict: Partially correct", LABELS, None),
        ("Generally Yes", FAITHFULNESS.form, "Generally Yes"),
        ("Verdict: neutral / mixed", FAITHFULNESS.form, "Neutral/Mixed"),
        ("Yes", FAITHFULNESS.form, None),
        (".5", FRACTION, 0.5),
        ("3 of the 4 calls were right.\n**Score:** 0.75", FRACTION, 0.75),
        ("Score: 4/5", FRACTION, None),
        ("Rating: 80%", FRACTION, None),
        ('{"score": "0.8"}', FRACTION, 0.8),
        ("Score: 4.0", FIVE, 4),
        ("Score: -1", FRACTION, None),
        ("Score: 0,8", FRACTION, None),
        ("Score: 0.8\nScore: 0.6", FRACTION, None),
        ("NaN", FRACTION, None),
        ('{"score": NaN}', FRACTION, None),
        ('{"score": 1e999}', FRACTION, None),
        ("Score: 6", FIVE, None),
        ("Score: 3.5", FIVE, None),
        ("true", PASSED, True),
        ("Verdict: No", PASSED, False),
    ],
)
def test_a_label_or_number_is_read_on_its_scale_and_never_off_it(reply: str, of: JsonObject, value: Json):
    assert score(reply, of) == value


def test_the_text_around_a_verdict_is_its_reasoning():
    for reply, reasoning in (
        ("The user asked for it.\nYes", "The user asked for it.\nYes"),
        ('The user asked for it. ```{"score": "yes"}```', "The user asked for it."),
        ('{"reasoning": "There is no better tool.", "score": "yes"}', "There is no better tool."),
        ('{"reasoning": "one\ntwo", "score": "Yes"}', "one\ntwo"),
        ('{"reasoning": "it said <think>no", "score": "Yes"}', "it said <think>no"),
    ):
        assert read_reply(reply, REASONED) == {"reasoning": reasoning, "score": "Yes"}
    # It is asked for again: a reasoning makes verdicts better.
    assert read_reply('{"score": "Yes"}', REASONED) == YES


def test_verdicts_of_several_parts_are_read_from_json_alone():
    nested = DEEPEVAL_ARGUMENT_CORRECTNESS.form
    reply = '```json\n{"verdicts": [{"verdict": "YES"}, {"verdict": "No.", "reason": "made up"}]}\n```'
    assert read_reply(reply, nested) == {"verdicts": [{"verdict": "yes"}, {"verdict": "no", "reason": "made up"}]}
    assert read_reply("yes", nested) == Unread()
    assert read_reply("Score: 1. Passed.", STRANDS_TRAJECTORY_JUDGE.form) == Unread()


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
    read = read_reply(reply, of)
    assert isinstance(read, Unread)
    assert (noun in read.problem, bool(read.problem)) == (True, bool(noun))


@each_row("piece", ["{", '{"a":', "answer: yes ", "\n", "<think>", "0.5 ", "\\", '{"score": "Yes"} '])
def test_no_reply_takes_long_to_read(piece: str):
    text = (piece * 32_768)[:32_768]
    begun = time.process_time()
    for of in (FORM, FRACTION):
        read_reply("Yes " + text, of)
    assert time.process_time() - begun < 2
