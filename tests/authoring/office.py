"""A made-up office agent: it reads mail, looks up the sender's colleague, asks, and writes to them. Some runs have one of five faults."""

from random import Random

from msgspec.structs import replace

from tests.score.support import tool_call, trajectory, user
from toolgauge.model.content import Recorded
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.observations import CallError, ToolDefinition
from toolgauge.model.trajectory import Message, ToolCall, Trajectory

_STATUS: JsonObject = {"type": "string", "enum": ["open", "pending", "solved", "archived"]}
_SET_STATUS: JsonObject = {"type": "object", "properties": {"ticket": {"type": "string"}, "status": _STATUS}}
_OFFERED = (
    *(ToolDefinition(name=name) for name in ("read_mail", "list_rooms", "fetch_report", "find_contact", "send_mail")),
    ToolDefinition(name="set_status", parameters=_SET_STATUS),
)
FAULTS = ("recipient", "unconfirmed", "status", "retries", "slow")
_NAMES = ("ana", "ben", "chloe", "dev", "emre", "fatima", "georg", "hana", "ines", "jonas", "kofi", "lena")


def office(seed: int, faults: list[str]) -> list[Trajectory]:
    """Make a run for each fault; the empty one is none."""
    random = Random(seed)  # noqa: S311 (made-up runs)
    return [_run(random, number, fault) for number, fault in enumerate(faults)]


def _call(name: str, args: JsonObject, result: Json, *, error: bool = False) -> ToolCall:
    failed = CallError(kind="timeout", message="") if error else None
    return tool_call(name, args, result=Recorded(result), error=failed)


def _run(random: Random, number: int, fault: str) -> Trajectory:
    who, writer, copied = random.sample(_NAMES, 3)
    address = f"{who}.{random.randrange(100)}@example.com"
    ticket = f"T-{random.randrange(10**4, 10**5)}"
    calls: list[ToolCall] = []
    wrong = ""
    for _ in range(random.choice((14, 17, 20)) if fault == "slow" else random.choice((1, 1, 2, 2, 3, 4))):
        mail = f"m{random.randrange(10**5, 10**6)}"
        wrong = f"{copied}.{random.randrange(100)}@example.com"
        calls.append(
            _call("read_mail", {"mail": mail}, {"from": f"{writer}@example.com", "cc": wrong, "text": "Hello."})
        )
    if random.random() < 0.3:
        calls.append(_call("list_rooms", {"floor": random.randrange(1, 5)}, {"rooms": ["Aalto", "Bauhaus"]}))
    failures = 6 if fault == "retries" else int(random.random() < 0.1)
    day = f"2026-03-{random.randrange(1, 29):02d}"
    calls += [_call("fetch_report", {"day": day}, None, error=True) for _ in range(failures)]
    calls.append(_call("fetch_report", {"day": day}, {"rows": random.randrange(5, 500)}))
    calls.append(_call("find_contact", {"name": who}, {"name": who, "email": address, "desk": random.randrange(300)}))
    text = f"The report of {day} has arrived. {random.choice(('Regards', 'Best', 'Thanks'))}, your assistant"
    recipient = wrong if fault == "recipient" else address
    messages = [user(f"Send {who} the report of {day}, for {ticket}.", 0)]
    if fault != "unconfirmed":
        asked = len(calls)
        messages.append(Message(role="assistant", text=f"Shall I send the report to {recipient}?", turn=asked))
        messages.append(user(random.choice(("Yes, please.", "yes", "Go ahead.", "Sure")), asked))
    calls.append(_call("send_mail", {"to": recipient, "text": text}, {"sent": True}))
    if random.random() < 0.8 or fault == "status":
        status = "archived" if fault == "status" else random.choice(("open", "pending", "solved"))
        calls.append(_call("set_status", {"ticket": ticket, "status": status}, {"done": True}))
    made = trajectory(
        *calls,
        service="office",
        agents=("assistant",),
        scope="conversation",
        conversation_id=f"office-{number}",
        trace_id=f"{number + 1:032x}",
        writing_tools=("send_mail", "set_status"),
        messages=tuple(messages),
    )
    return replace(
        made, tools_offered=_OFFERED, end_ns=(3 * len(calls) + random.randrange(5)) * 10**9, has_beginning=True
    )
