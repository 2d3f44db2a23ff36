"""What the conventions' attributes say, in the forms in which producers write them."""

from tests.rows import each_row
from toolgauge.model.json import Value
from toolgauge.recognize import conventions


@each_row(
    "reasons",
    [["tool_call"], ["tool_calls"], ["tool-calls"], ["stop", "tool_use"], '["function_call"]', "tool-calls"],
)
def test_a_finish_reason_of_tools_shows_that_the_model_called_some(reasons: Value):
    assert conventions.stopped_for_tools({"gen_ai.response.finish_reasons": reasons})


@each_row("reasons", [["stop"], [], '["length"]', "content-filter", None, 1])
def test_any_other_finish_reason_shows_no_call(reasons: Value):
    assert not conventions.stopped_for_tools({"gen_ai.response.finish_reasons": reasons})


@each_row(
    ("reasons", "ending"),
    [
        (["length"], "length"),
        (["stop", "max_tokens"], "length"),
        ('["content_filter"]', "content_filter"),
        ("content-filter", "content_filter"),
        ("FinishReason.MAX_TOKENS", "length"),
        ("SAFETY", "content_filter"),
        (["refusal"], "refusal"),
        (["length", "stop"], None),
        (["stop"], None),
        (["tool_calls"], None),
        ([], None),
        ("", None),
        (None, None),
        (1, None),
        ("length " * 100, None),
    ],
)
def test_the_last_finish_reason_may_say_that_the_answer_is_not_whole(reasons: Value, ending: str | None):
    assert conventions.model_call({"gen_ai.response.finish_reasons": reasons}).ending == ending
