"""What LangChain and LangGraph write under every dialect that reads them."""

import time

from tests.recognize.support import span
from toolgauge.recognize.langchain import waiting_calls

ACTIONS = "'action_requests': [{'name': 'wire', 'args': {'n': 1}}, {'name': 'book', 'args': {}}], 'review_configs': []"


def test_the_calls_for_which_a_person_is_asked_are_read_from_the_text_of_the_interrupt():
    interrupt = f"(Interrupt(value={{{ACTIONS}}}, id='1'),)"
    assert [call.name for call in waiting_calls(span({}), interrupt)] == ["wire", "book"]


def test_many_beginnings_of_lists_of_actions_without_an_end_take_no_time():
    began = time.process_time()
    assert not list(waiting_calls(span({}), "'action_requests': [" * 10_000))
    assert time.process_time() - began < 0.5
