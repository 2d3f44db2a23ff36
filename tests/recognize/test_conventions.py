"""What the conventions' attributes say, in the forms in which producers write them."""

import pytest

from toolgauge.model.json import Value
from toolgauge.recognize import conventions


@pytest.mark.parametrize(
    "reasons",
    [["tool_call"], ["tool_calls"], ["tool-calls"], ["stop", "tool_use"], '["function_call"]', "tool-calls"],
)
def test_a_finish_reason_of_tools_shows_that_the_model_called_some(reasons: Value):
    assert conventions.stopped_for_tools({"gen_ai.response.finish_reasons": reasons})


@pytest.mark.parametrize("reasons", [["stop"], [], '["length"]', "content-filter", None, 1])
def test_any_other_finish_reason_shows_no_call(reasons: Value):
    assert not conventions.stopped_for_tools({"gen_ai.response.finish_reasons": reasons})
