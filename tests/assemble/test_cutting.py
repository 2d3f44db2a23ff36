"""Text of an open trace is bounded: repetitions are kept once, long texts lose their middle."""

from tests.assemble.support import answered, args, assembler, executed, model, only_call, reading, requested
from toolgauge.assemble.memory import cut_text
from toolgauge.assemble.settings import AssembleSettings
from toolgauge.model.content import Recorded, Unparsed
from toolgauge.model.json import Json
from toolgauge.model.left_out import MARK
from toolgauge.model.observations import MessageSeen, Reading
from toolgauge.model.trajectory import Trajectory


def closed(*readings: Reading, max_content_bytes: int) -> Trajectory:
    box, _ = assembler(AssembleSettings(max_content_bytes=max_content_bytes))
    for one in readings:
        box.add(one, 0)
    (trajectory,) = box.close_all(1)
    return trajectory


def test_a_long_result_loses_its_middle_and_says_so():
    result = Recorded("a" * 5000 + "b" * 5000)
    trajectory = closed(reading("t", executed("f", args(n=1), result=result), size=10_100), max_content_bytes=1000)
    kept = (512 - len(MARK)) // 2
    assert only_call(trajectory).result == Unparsed("a" * kept + MARK + "b" * kept, reason="truncated")
    assert only_call(trajectory).arguments == args(n=1)


def test_long_structured_arguments_become_truncated_text():
    trajectory = closed(reading("t", executed("f", args(text="x" * 5000)), size=5100), max_content_bytes=1000)
    arguments = only_call(trajectory).arguments
    assert isinstance(arguments, Unparsed)
    assert (arguments.reason, arguments.text[:12], arguments.text[-2:]) == ("truncated", '{"text": "xx', '"}')


def test_text_that_was_broken_from_the_start_stays_broken():
    trajectory = closed(
        reading("ask", model(), requested("f", Unparsed('{"text": "' + "x" * 5000)), size=5100), max_content_bytes=1000
    )
    arguments = only_call(trajectory).arguments
    assert isinstance(arguments, Unparsed)
    assert arguments.reason == "unparsable"


def test_repeated_history_does_not_push_anything_out():
    answers = [answered(f"c{number}", f"{number}" * 50) for number in range(10)]
    readings = [
        reading(
            f"ask{number}",
            model(),
            MessageSeen(role="system", text="s" * 300),
            *answers[:number],
            *([requested("f", args(n=number), id=f"c{number}")] if number < 10 else []),
            parent="run",
            start=number,
            size=400 + 100 * number,
        )
        for number in range(11)
    ]
    trajectory = closed(*readings, max_content_bytes=1200)
    assert [call.result for call in trajectory.calls] == [Recorded(f"{number}" * 50) for number in range(10)]
    assert [message.text for message in trajectory.messages] == ["s" * 300]


def test_an_answer_that_reads_like_another_one_is_no_repetition_of_it():
    results: list[Json] = [1, "1", {"n": 1}, '{"n": 1}', True, "true"]
    told = [answered(None, one, name="f") for one in results]
    asked = [requested("f", position=position) for position in range(len(told))]
    later = reading("later", model(), *told, MessageSeen(role="user", text="u" * 2000), start=5, size=3000)
    trajectory = closed(reading("ask", model(), *asked), later, max_content_bytes=1000)
    assert [call.result for call in trajectory.calls] == [one.result for one in told]
    kinds = [type(call.result.value) for call in trajectory.calls if isinstance(call.result, Recorded)]
    assert kinds == [int, str, dict, str, bool, str]


def test_cutting_twice_is_cutting_once():
    text = "".join(chr(97 + number % 26) for number in range(3000))
    assert len(MARK) % 2 == 0
    for high, low in ((1024, 512), (2048, 64), (128, 128)):
        assert cut_text(cut_text(text, high), low) == cut_text(text, low)
        assert len(cut_text(text, low)) == low
