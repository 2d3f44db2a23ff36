"""Which offsets may be committed, by what the ledger says of the messages."""

from collections.abc import Collection

from toolgauge.model.delivery import Assignment, BrokerMessage, Source
from toolgauge.model.journal import ClosedId, JournalChange, JournalEntry, ShownValues
from toolgauge.model.left_out import EarlierValues
from toolgauge.state.ledger import Committable, Ledger, OffsetJournal

TOPIC = "otlp_spans"


def reading(*offsets: int) -> tuple[OffsetJournal, Assignment, list[BrokerMessage]]:
    """Messages of one partition that were read at ten times their offsets."""
    offsets_journal, assignment = OffsetJournal(None), Assignment(partition=3)
    offsets_journal.begin(TOPIC, 3, offsets[0])
    return offsets_journal, assignment, [offsets_journal.add(TOPIC, one, assignment, one * 10) for one in offsets]


def at(journal: OffsetJournal) -> tuple[int, int, int]:
    (part,) = journal.committable(1000)
    assert (part.topic, part.partition) == (TOPIC, 3)
    return part.offset, part.read, part.since_ns


def closed(name: str) -> ClosedId:
    return ClosedId(id=name, scope="trace", closed_ns=1, partition=3)


def own(number: int) -> JournalEntry:
    return JournalEntry(id=number, signal="traces", body=b"", received_ns=1, own=True)


def test_the_first_needed_message_holds_back_those_behind_it():
    journal, _, (first, second, third) = reading(5, 6, 9)
    assert at(journal) == (5, 10, 50)
    journal.submit(JournalChange(messages=(second,)))
    assert at(journal) == (5, 10, 50)
    journal.submit(JournalChange(messages=(first,)))
    assert at(journal) == (9, 10, 90)
    journal.submit(JournalChange(messages=(third,)))
    assert at(journal) == (10, 10, 1000)


def test_a_skipped_message_needs_nothing_and_one_that_was_not_taken_is_read_again():
    journal, assignment, (first,) = reading(0)
    journal.skip(TOPIC, 1, assignment)
    journal.done(first)
    assert at(journal) == (2, 2, 1000)
    journal.withdraw(journal.add(TOPIC, 2, assignment, 20))
    assert at(journal) == (2, 2, 1000)
    assert journal.needed == 0


def test_a_message_is_needed_until_the_scores_of_its_trajectory_are_delivered():
    journal, _, (entry,) = reading(7)
    ledger = Ledger(journal)
    ledger.add_message(entry)
    ledger.claim_trajectories(entry, 1)
    ledger.claim_deliveries((entry,))
    ledger.end_reading(entry)
    ledger.settle((entry,))
    assert ledger.is_delivered(entry)
    scorecard = ledger.new_entry("traces", b"", 1, own=True)
    ledger.claim_deliveries((entry,))
    ledger.close((entry, scorecard.id), (closed("a"),), (scorecard,))
    assert at(journal) == (7, 8, 70)
    assert journal.take_closed() == []
    ledger.settle((scorecard.id, entry))
    assert at(journal) == (8, 8, 1000)
    assert journal.take_closed() == [closed("a")]


class Changes:
    """A `JournalWriter` that keeps what it is given."""

    def __init__(self) -> None:
        self.submitted: list[JournalChange] = []

    def next_id(self) -> int:
        return 1

    def keeps(self, entries: Collection[Source]) -> bool:
        return bool(entries)

    def begin_work(self, subject: str) -> None:
        del subject

    def submit(self, change: JournalChange) -> None:
        self.submitted.append(change)


def test_values_that_a_conversation_showed_are_written_without_any_other_change():
    journal = Changes()
    shown = ShownValues(conversation=b"c", values=EarlierValues(has_traces=True))
    Ledger(journal).close((), (), (), (shown,))
    assert [change.shown for change in journal.submitted] == [(shown,)]


def test_ids_wait_for_all_scores_and_not_for_ever_when_the_partition_is_lost():
    journal, _, _ = reading(1)
    journal.submit(JournalChange(appended=(own(1), own(2)), closed=(closed("a"), closed("b"))))
    journal.submit(JournalChange(removed=(1,)))
    assert journal.take_closed() == []
    assert journal.take_closed(undelivered=True) == [closed("a"), closed("b")]
    journal.submit(JournalChange(removed=(2,)))
    assert journal.take_closed() == []


def test_what_did_not_come_from_a_broker_is_no_concern_of_the_next_owner():
    journal, _, _ = reading(1)
    journal.submit(JournalChange(closed=(ClosedId(id="a", scope="trace", closed_ns=1),)))
    assert journal.take_closed() == []


def test_a_lost_partition_is_forgotten_and_what_becomes_of_its_messages_later():
    journal, assignment, (first, second) = reading(1, 2)
    assert journal.keeps((first, second))
    assert journal.drop(assignment) == [first, second]
    assert not journal.keeps((first,))
    journal.submit(JournalChange(messages=(first,)))
    assert journal.committable(1000) == []
    journal.begin(TOPIC, 3, 1)
    assert journal.committable(1000) == [Committable(TOPIC, 3, 1, 1, 1000)]


def test_the_next_process_gets_no_scores_that_only_this_one_had():
    journal, _, (entry,) = reading(1)
    assert not journal.keeps((journal.next_id(),))
    assert journal.keeps((5, entry))


def test_older_messages_are_found_in_every_partition():
    journal, _, (first, second) = reading(1, 2)
    journal.begin("otlp_logs", 0, 0)
    third = journal.add("otlp_logs", 0, Assignment(partition=0), 5)
    assert journal.older(20) == [first, third]
    journal.done(first)
    assert journal.older(21) == [second, third]
