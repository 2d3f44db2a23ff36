"""Several values of a trace that end at one length were cut by a limit."""

from msgspec.structs import replace

from tests.assemble.support import answered, executed, joined, model, reading, requested
from toolgauge.assemble.cutting import cut_text
from toolgauge.model.content import Content, Recorded, Unparsed
from toolgauge.model.damaged_json import text_size
from toolgauge.model.observations import MessageSeen, Observation
from toolgauge.model.trajectory import Trajectory

NOTE = '{"note": "' + "n" * 5_000
MAIL = '{"body": "' + "m" * 5_000


def ran(*observations: Observation) -> Trajectory:
    """One model call, and one tool span for each observation."""
    spans = [reading(f"t{place}", seen, start=10 + place) for place, seen in enumerate(observations)]
    return joined(reading("m", model(), start=1), *spans)


def arguments(trajectory: Trajectory) -> list[Content]:
    return [call.arguments for call in trajectory.calls]


def cut(text: str, size: int = 777) -> Unparsed:
    return Unparsed(text[:size], "truncated")


def broken(text: str, size: int = 777) -> Unparsed:
    return Unparsed(text[:size])


def test_arguments_that_end_at_one_length_were_cut():
    calls = ran(executed("note", broken(NOTE), id="1"), executed("mail", broken(MAIL), id="2"))
    assert arguments(calls) == [cut(NOTE), cut(MAIL)]
    assert [call.state for call in calls.calls] == ["executed", "executed"]


def test_one_value_or_two_lengths_show_no_limit():
    assert arguments(ran(executed("note", broken(NOTE)))) == [broken(NOTE)]
    calls = ran(executed("note", broken(NOTE), id="1"), executed("mail", broken(MAIL, 776), id="2"))
    assert arguments(calls) == [broken(NOTE), broken(MAIL, 776)]


def test_the_same_text_twice_is_one_value():
    calls = ran(executed("note", broken(NOTE), id="1"), executed("note", broken(NOTE), id="2"))
    assert arguments(calls) == [broken(NOTE), broken(NOTE)]


def test_short_values_have_one_length_by_chance():
    calls = ran(executed("note", broken(NOTE, 40), id="1"), executed("mail", broken(MAIL, 40), id="2"))
    assert arguments(calls) == [broken(NOTE, 40), broken(MAIL, 40)]


def test_json_that_is_wrong_before_its_end_stays_the_model_s():
    wrong = Unparsed(("{note: '" + "n" * 5_000)[:777])
    calls = ran(executed("note", wrong, id="1"), executed("mail", broken(MAIL), id="2"))
    assert arguments(calls)[0] == wrong


def test_a_result_in_json_counts_and_is_truncated_itself():
    rows = '[{"row": "' + "r" * 5_000
    call = executed("note", broken(NOTE), id="1", result=Recorded(rows[:777]))
    assert (ran(call).calls[0].arguments, ran(call).calls[0].result) == (cut(NOTE), cut(rows))


def test_two_results_in_json_are_enough():
    first, second = '{"rows": ["' + "a" * 5_000, '{"rows": ["' + "b" * 5_000
    calls = ran(
        executed("list", Recorded({}), id="1", result=Recorded(first[:777])),
        executed("list", Recorded({"page": 2}), id="2", result=Recorded(second[:777])),
    )
    assert [call.result for call in calls.calls] == [cut(first), cut(second)]


def test_a_message_of_the_length_counts_where_no_text_is_longer():
    question = MessageSeen(role="user", text="q" * 777)
    call = reading("t", executed("note", broken(NOTE)), start=10)
    assert arguments(joined(reading("m", model(), question, start=1), call)) == [cut(NOTE)]
    prompt = MessageSeen(role="system", text="p" * 778)
    assert arguments(joined(reading("m", model(), prompt, question, start=1), call)) == [broken(NOTE)]


def test_lengths_are_compared_in_one_unit():
    # 777 UTF-16 units each, as an SDK in JavaScript counts them; 776 and 777 characters.
    emoji = '{"body": "\U0001f389' + "m" * 5_000
    calls = ran(executed("note", broken(NOTE), id="1"), executed("mail", broken(emoji, 776), id="2"))
    assert arguments(calls) == [cut(NOTE), cut(emoji, 776)]


def test_a_request_that_was_cut_is_not_rejected():
    one, two = requested("note", broken(NOTE), id="1"), requested("mail", broken(MAIL), id="2", position=1)
    calls = joined(
        reading("m", model(), one, two, start=1), reading("n", model(), answered("1"), answered("2"), start=9)
    )
    assert [(call.state, call.error, call.arguments) for call in calls.calls] == [
        ("executed", None, cut(NOTE)),
        ("executed", None, cut(MAIL)),
    ]


def test_texts_that_were_shortened_to_save_memory_have_no_length_of_their_own():
    shortened = Unparsed(cut_text(NOTE, 512))
    calls = ran(executed("note", shortened, id="1"), executed("mail", broken(MAIL, 512), id="2"))
    assert arguments(calls) == [shortened, broken(MAIL, 512)]


def test_a_limit_in_bytes_stops_before_a_character_that_does_not_fit():
    # 776 and 777 bytes: the next character of the first has three.
    three_bytes = '{"name": "' + "\u6f22" * 5_000
    fits = three_bytes.encode()[:777].decode(errors="ignore")
    calls = ran(executed("note", broken(NOTE), id="1"), executed("mail", Unparsed(fits), id="2"))
    assert arguments(calls) == [cut(NOTE), Unparsed(fits, "truncated")]
    # Four bytes less are no length of this limit.
    calls = ran(executed("note", broken(NOTE, 780), id="1"), executed("mail", Unparsed(fits), id="2"))
    assert arguments(calls) == [broken(NOTE, 780), Unparsed(fits)]


def test_a_limit_in_utf_16_units_stops_before_an_emoji_that_does_not_fit():
    # 776 units in 387 characters.
    emoji = ('{"body": "' + "\U0001f389" * 5_000)[:393]
    calls = ran(executed("note", broken(NOTE), id="1"), executed("mail", Unparsed(emoji), id="2"))
    assert arguments(calls) == [cut(NOTE), Unparsed(emoji, "truncated")]


def test_texts_that_no_dialect_reads_show_the_limit():
    call = reading("t", executed("note", broken(NOTE)), start=10)
    chain = replace(reading("c", start=2), text_sizes=(text_size(MAIL[:777]),))
    assert arguments(joined(reading("m", model(), start=1), chain, call)) == [cut(NOTE)]
    other = replace(reading("c", start=2), text_sizes=(text_size(MAIL[:770]),))
    assert arguments(joined(reading("m", model(), start=1), other, call)) == [broken(NOTE)]


def test_the_arguments_themselves_are_no_second_text_of_their_span():
    call = replace(reading("t", executed("note", broken(NOTE)), start=10), text_sizes=(text_size(NOTE[:777]),))
    assert arguments(joined(reading("m", model(), start=1), call)) == [broken(NOTE)]


def test_a_stack_trace_of_the_length_counts_where_no_text_is_longer():
    sizes = (text_size(NOTE[:777]), text_size("x" * 777))
    call = reading("t", executed("note", broken(NOTE)), start=10)
    assert arguments(joined(reading("m", model(), start=1), replace(call, text_sizes=sizes))) == [cut(NOTE)]
    longer = (*sizes, text_size("y" * 778))
    assert arguments(joined(reading("m", model(), start=1), replace(call, text_sizes=longer))) == [broken(NOTE)]
