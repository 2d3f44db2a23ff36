"""What a reading weighs where no memory can be measured. See `tests/walk/test_memory.py`."""

from tests.assemble.support import args, executed, reading
from tests.rows import each_row
from toolgauge.assemble.memory import Scale
from toolgauge.model.content import Recorded
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.observations import (
    AgentRun,
    CallError,
    CallExecuted,
    CallRequested,
    ConversationSeen,
    MessageSeen,
    Observation,
    Reading,
    ToolDefinition,
    ToolsOffered,
)


def weigh(scale: Scale, seen: Reading) -> int:
    return sum(scale.weights(seen))


def weight(result: Json, *, size: int) -> int:
    return weigh(Scale(), reading("t", executed("f", result=Recorded(result)), size=size))


def test_a_repeated_system_prompt_weighs_once():
    scale, prompt = Scale(), MessageSeen(role="system", text="s" * 10_000)
    first, second = (weigh(scale, reading(name, prompt, executed("f", args(n=1)), size=11_000)) for name in "ab")
    assert (first > 10_000, second < 1500) == (True, True)


LONG = "x" * 1_000_000


HUGE = int("9" * 4000)
IN_OBJECTS: Json = [{"in": {"an": [{LONG: None}]}}]
IN_LISTS: Json = [[[], [LONG]], *[[1, 2] for _ in range(99)]]
NUMBERS: Json = {f"n{number}": HUGE + number for number in range(60)}
ONE_OF_MANY: list[Json] = [[*[1] * place, LONG, *[1] * (99 - place)] for place in range(0, 100, 7)]


@each_row("hidden", [*ONE_OF_MANY, IN_LISTS, IN_OBJECTS, {LONG: 1}, NUMBERS])
def test_nothing_large_hides_from_the_scale(hidden: Json):
    assert weight(hidden, size=1_000_500) > 100_000


@each_row(
    "seen",
    [
        CallExecuted(name=LONG),
        CallExecuted(name="f", call_id=LONG),
        CallExecuted(name="f", tool_id=LONG),
        CallExecuted(name="f", error=CallError(kind=LONG, message="")),
        CallRequested(position=0, name="f", agent=LONG),
        AgentRun(agent=LONG),
        ConversationSeen(conversation_id=LONG, rank=0),
    ],
)
def test_a_name_of_a_megabyte_weighs_a_megabyte(seen: Observation):
    assert weigh(Scale(), reading("t", seen, size=1_000_500)) >= 1_000_000


def tools(text: str = "d") -> tuple[ToolDefinition, ...]:
    """Ten tools, which take about forty times the text."""
    properties: JsonObject = {name: {"type": "string", "description": text + name} for name in "abc"}
    return tuple(
        ToolDefinition(name=f"f{number}", description=text + str(number), parameters={"properties": {**properties}})
        for number in range(10)
    )


def weighed(scale: Scale, offered: tuple[ToolDefinition, ...]) -> int:
    return weigh(scale, reading("t", ToolsOffered(tools=offered), size=100_000))


def test_tools_weigh_with_the_first_that_has_them_and_nothing_with_others():
    scale, one = Scale(), tools("d" * 1000)
    assert weighed(scale, one) > 10 * 1000
    assert weighed(scale, one) < 1000
    assert weighed(scale, tools("d" * 1000)) > 10 * 1000


def test_what_is_remembered_of_shared_objects_is_bounded_in_bytes():
    scale = Scale(max_bytes=100_000)
    first, second = tools("a" * 1000), tools("b" * 1000)
    for one in (first, second, tools("c" * 1000), tools("d" * 1000)):
        weighed(scale, one)
    assert weighed(scale, first) > 10 * 1000
