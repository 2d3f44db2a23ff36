"""Files of labels, right and wrong: each problem is named with its line."""

from pathlib import Path

import pytest

from toolgauge.authoring.labels import Labelled, read_labels
from toolgauge.model.errors import ConfigError

FIRST = Labelled(is_conversation=False, id="5b8efff798038103d269b633813fc60c")
SECOND = Labelled(is_conversation=False, id="eee19b7ec3c1b174eee19b7ec3c1b174")
CONVERSATION = Labelled(is_conversation=True, id="c-1")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "labels.csv"


def problem(file: Path, text: str) -> tuple[str, str | None]:
    file.write_text(text)
    with pytest.raises(ConfigError) as raised:
        read_labels(file)
    return raised.value.message.replace(str(file), "F"), raised.value.hint


def test_verdicts_are_on_traces_and_on_conversations(file: Path):
    file.write_text(f"trace_id,conversation_id,verdict\n{FIRST.id},,passed\n{SECOND.id},c-1,0\n,c-1,up\n")
    labels = read_labels(file)
    assert labels.verdicts == {FIRST: True, SECOND: False, CONVERSATION: True}
    assert labels.name == "labels.csv"


def test_numbers_pass_from_a_threshold_on(file: Path):
    file.write_text("conversation_id,verdict\na,5\nb,2\n")
    assert list(read_labels(file, 4.0).verdicts.values()) == [True, False]


def test_a_missing_column_is_named_beside_those_there_are(file: Path):
    hint = "the first line names the columns: `trace_id` or `conversation_id`, and `verdict`; there is "
    assert problem(file, "trace_id,label\n") == ("`F`, line 1: no column `verdict`", f"{hint}`trace_id`, `label`")
    assert problem(file, "id,verdict\n") == (
        "`F`, line 1: no column `trace_id` or `conversation_id`",
        f"{hint}`id`, `verdict`",
    )
    assert problem(file, "") == (
        "`F`, line 1: no column `verdict`, and none `trace_id` or `conversation_id`",
        f"{hint}none",
    )


def test_a_word_that_is_no_verdict_is_named_with_its_line(file: Path):
    message, hint = problem(file, "conversation_id,verdict\nc-1,passed\nc-2,maybe\n")
    assert message == "`F`, line 3: `maybe` is no verdict"
    assert hint is not None
    assert hint.startswith("a verdict is `passed` or `failed`, ")


def test_all_problems_are_named_together(file: Path):
    message, hint = problem(file, "conversation_id,verdict\nc-1,passed\n,failed\nc-1,failed\nc-2\n")
    assert message.splitlines() == [
        "3 problems in `F`",
        "  line 3: neither `trace_id` nor `conversation_id` is filled in",
        "  line 4: conversation `c-1` failed, and in line 2 it passed",
        "  line 5: `` is no verdict",
    ]
    assert hint is not None


def test_a_file_that_is_not_there_or_not_text_is_named(file: Path):
    with pytest.raises(ConfigError, match=r"cannot read `.*: No such file"):
        read_labels(file)
    file.write_bytes(b"trace_id,verdict\n\xff\xfe,passed\n")
    with pytest.raises(ConfigError, match="cannot read "):
        read_labels(file)
