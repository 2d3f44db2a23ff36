"""The yardstick plants what it says, and finds what the table in `docs/evidence.md` says of toolgauge."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
YARDSTICK = ROOT / "examples" / "yardstick" / "yardstick.py"


def call(name: str, arguments: dict[str, str], call_id: str) -> dict[str, object]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": call_id, "type": "function", "function": function}],
    }


def result(name: str, call_id: str, content: str) -> dict[str, object]:
    return {"role": "tool", "tool_call_id": call_id, "name": name, "content": content}


CONVERSATION = [
    {"role": "system", "content": "You book flights."},
    {"role": "user", "content": "Book HAT069 for me. I am mia_li_3668."},
    call("get_user", {"user_id": "mia_li_3668"}, "c1"),
    result("get_user", "c1", '{"user_id": "mia_li_3668", "card": "credit_card_4421486"}'),
    {"role": "assistant", "content": "Shall I charge credit_card_4421486?"},
    {"role": "user", "content": "Yes."},
    call("book_flight", {"flight": "HAT069", "card": "credit_card_4421486"}, "c2"),
    result("book_flight", "c2", '{"reservation": "ZFA04Y"}'),
    {"role": "assistant", "content": "I have booked the flight for you. The reservation is ZFA04Y."},
    {"role": "user", "content": "Thanks. ###STOP###"},
]


def rows(*arguments: str) -> dict[str, list[str]]:
    command = [sys.executable, str(YARDSTICK), *arguments, "--only", "toolgauge", "collector"]
    printed = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout
    cells = [line.strip("| ").split(" | ") for line in printed.splitlines()]
    assert cells[0] == ["fault", "runs", "toolgauge", "checks of a Collector"]
    return {first: rest for first, *rest in cells[2:]}


def test_each_fault_is_planted_where_it_can_be_and_found_by_no_other_than_its_own_run(tmp_path: Path):
    file = tmp_path / "conversations.json"
    file.write_text(json.dumps([{"traj": CONVERSATION, "reward": 1.0}]))
    assert rows(str(file)) == {
        "`done_twice`": ["1", "1", "1"],
        "`changed_twice`": ["1", "0", "1"],
        "`act_not_done`": ["1", "1", "0"],
        "`act_failed`": ["1", "1", "1"],
        "`answer_id`": ["1", "1", "0"],
        "`argument_id`": ["1", "1", "0"],
        "`empty_answer`": ["1", "1", "0"],
        "none: it went well": ["1", "0", "0"],
        "none: it went badly": ["0", "0", "0"],
    }


def test_the_captured_faults_are_found_as_the_page_says():
    page = (ROOT / "docs" / "evidence.md").read_text()
    for fault, (runs, found, by_checks) in rows().items():
        (line,) = [line for line in page.splitlines() if line.startswith(f"| {fault} | {runs} |")]
        cells = line.strip("| ").split(" | ")
        assert cells[2] == found
        assert cells[-1] == by_checks
