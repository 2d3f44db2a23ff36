from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import pytest

from tests.recognize.support import CORPUS, log, span
from tests.rows import each_row
from toolgauge.model.content import Recorded
from toolgauge.model.json import Value
from toolgauge.model.observations import (
    CallAnswered,
    CallExecuted,
    CallRequested,
    ConversationSeen,
    Observation,
)
from toolgauge.model.ports import Dialect, Grounds
from toolgauge.model.records import Record
from toolgauge.otlp.decoder import Decoder
from toolgauge.plugins import dialects
from toolgauge.testing.dialects import check_dialect

# A few spans of each producer are enough for a contract; reading every recording is the work of other tests.
RECORDS_A_FILE = 6
# Known from documentation alone; their own tests check the contract on constructed records.
NOT_RECORDED = {"agentcore", "claude_code"}
CASES = Path(__file__).parents[1] / "recognize" / "cases"


def recorded(dialect: Dialect, folder: Path) -> Iterator[Record]:
    decoder = Decoder(dialect.marks, dialect.scopes)
    for file in sorted(folder.glob("*.otlp.pb")):
        body = file.read_bytes()
        if file.name.endswith(".logs.otlp.pb"):
            yield from islice(decoder.logs(body).viewed, RECORDS_A_FILE)
        else:
            yield from (viewed.span for viewed in islice(decoder.traces(body).viewed, RECORDS_A_FILE))


@each_row(
    "dialect",
    [dialect for dialect in dialects() if dialect.name not in NOT_RECORDED],
    ids=lambda dialect: dialect.name,
)
def test_each_installed_dialect_keeps_its_contract_on_all_recorded_producers(dialect: Dialect):
    folders = sorted([*CORPUS.iterdir(), *CASES.iterdir()])
    records = [record for folder in folders for record in recorded(dialect, folder)]
    check_dialect(dialect, records)


@dataclass
class Fake:
    """Claims spans with the key `fake.kind` and yields what it is told to."""

    observations: tuple[Observation, ...] = (CallExecuted(name="add"),)
    name: str = "fake"
    rank: int = 50
    marks: tuple[str, ...] = ("fake.",)
    scopes: tuple[str, ...] = ()
    grounds: object = None
    answers_everything: bool = False
    forgets: bool = True
    changes: bool = False
    seen: list[Record] = field(default_factory=list[Record])

    def claims(self, record: Record) -> bool:
        return "fake.kind" in record.attributes

    def read(self, record: Record) -> Iterator[Observation]:
        if self.changes and isinstance(record.attributes, dict):
            record.attributes["fake.seen"] = True
        if not self.forgets and record in self.seen:
            return
        self.seen.append(record)
        yield from self.observations

    def attribute(self, record: Record, key: str) -> Value:
        return "something" if self.answers_everything else record.attributes.get(key)


def records() -> list[Record]:
    return [span({"fake.kind": "tool"}, name="add"), span({"other.key": 1}), log("other.event")]


@each_row(
    ("fake", "message"),
    [
        (Fake(name="Fake Dialect"), "snake case"),
        (Fake(marks=("",)), "holds an empty text"),
        (Fake(marks=()), "neither marks nor scopes"),
        (Fake(marks=("elsewhere.",)), "it would never see that record"),
        (Fake(grounds=("fake.kind",)), "are no `Grounds`"),
        (Fake(grounds=Grounds(names=("",))), "`grounds.names` of dialect `fake` holds an empty text"),
        (Fake(grounds=Grounds(keys=("fake.name",), scopes=("fake",), names=("added",))), "none of its grounds"),
        (Fake(observations=()), "yields nothing"),
        (Fake(forgets=False), "differently the second time"),
        (Fake(changes=True), "changes span `add`"),
        (Fake(answers_everything=True), "finds an attribute that"),
        (Fake(observations=(CallRequested(position=0, name=""),)), "a request without a name"),
        (
            Fake(observations=(CallRequested(position=0, name="a"), CallRequested(position=0, name="b"))),
            "the same position",
        ),
        (Fake(observations=(CallAnswered(result=Recorded(1)),)), "neither id nor name"),
        (Fake(observations=(CallExecuted(name="add", result=Recorded(float("nan"))),)), "not JSON"),
        (Fake(observations=(ConversationSeen(conversation_id="", rank=1),)), "empty conversation id"),
        (Fake(observations=(ConversationSeen(conversation_id="c", rank=7),)), "rank 7"),
    ],
)
def test_broken_contract_is_named(fake: Fake, message: str):
    with pytest.raises(AssertionError, match=message):
        check_dialect(fake, records())
