"""What all backends share: queue, retries, refusals, the end, and what is never written anywhere."""

import asyncio
import logging
from typing import Literal

import pytest
from msgspec.structs import replace

from tests.backends.fakes import KEY, Asked, Reply, card, in_turn, sending, serving
from tests.export.fakes import FAST, until
from tests.export.scorecards import call, call_result, failed, passed, scorecard, trajectory_result
from tests.walk.support import MemoryJournal
from toolgauge.backends.settings import PhoenixSettings, ScoreQueueSettings
from toolgauge.export.destination import otlp_destination
from toolgauge.export.fan_out import FanOut
from toolgauge.export.settings import DestinationSettings, KeepSettings
from toolgauge.model.outcomes import Difference, Scored, Side
from toolgauge.state.ledger import Ledger

FOUND = Reply(json={"data": []})
SETTINGS = PhoenixSettings(api_key=KEY)
ALL = {"accepted": 3, "delivered": 3}


@pytest.mark.parametrize("status", [500, 429, 408])
async def test_what_may_pass_is_tried_again(status: int):
    async with serving(in_turn(Reply(status), Reply(status), FOUND)) as backend, sending(SETTINGS, backend) as out:
        out.put(card())
        assert await out.settled() == ALL
        assert len(backend.asked) == 3


async def test_the_wait_that_a_backend_asks_for_is_kept():
    busy = Reply(429, headers={"Retry-After": "1"})
    async with serving(in_turn(busy, FOUND)) as backend, sending(SETTINGS, backend) as out:
        out.put(card())
        assert await out.settled() == ALL
        first, second = backend.asked
        assert second.at_s - first.at_s >= 1


@pytest.mark.parametrize("status", [401, 404])
async def test_a_refusal_for_good_is_counted_and_named_in_health(status: int):
    async with serving(in_turn(Reply(status), FOUND)) as backend, sending(SETTINGS, backend, late=1) as out:
        out.put(card())
        books = await out.settled()
        reason = "no_span" if status == 404 else f"http_{status}"
        assert books == {"accepted": 3, f"dropped:{reason}": 3}
        if status != 404:
            [refusing] = out.destination.health.refusing()
            assert (refusing.signal, refusing.reason) == ("scores", f"http_{status}")
            out.put(card())
            await out.settled()
            assert not out.destination.health.refusing()


async def test_as_many_scores_as_a_backend_takes_leave_in_one_request():
    class ThreeTogether(PhoenixSettings):
        most_together = 3

    async with serving(in_turn(FOUND)) as backend, sending(ThreeTogether(api_key=KEY), backend) as out:
        out.put(card())
        assert await out.settled() == ALL
        assert len(backend.asked) == 1


@pytest.mark.parametrize("status", [413, 422])
async def test_a_request_that_is_too_large_or_half_wrong_is_halved(status: int):
    def answers(asked: Asked) -> Reply:
        names = [one["name"] for one in asked.json["data"]]
        return FOUND if len(names) == 1 and names != ["judge"] else Reply(status)

    async with serving(answers) as backend, sending(SETTINGS, backend) as out:
        out.put(card())
        assert await out.settled() == {"accepted": 3, "delivered": 2, f"dropped:http_{status}": 1}


async def test_a_slow_backend_is_given_up_and_asked_again():
    slow = in_turn(Reply(hang_s=1), FOUND)
    async with serving(slow) as backend, sending(SETTINGS, backend, timeout=100_000_000) as out:
        out.put(card())
        assert await out.settled() == ALL


async def test_scores_wait_while_a_backend_is_away_and_leave_together():
    async with serving(in_turn(Reply(503))) as backend, sending(SETTINGS, backend) as out:
        out.put(card())
        await until(lambda: out.destination.health.now() is not None)
        for number in range(20):
            out.put(scorecard(trajectory_result(passed(), f"criterion-{number}")))
        assert out.destination.waiting == 23
        backend.answers = in_turn(FOUND)
        before = len(backend.asked)
        assert await out.settled() == {"accepted": 23, "delivered": 23}
        assert len(backend.asked) - before < 10


async def test_what_finds_no_room_is_counted():
    queue = ScoreQueueSettings(max_bytes=1000)
    async with serving(in_turn(Reply(503))) as backend, sending(SETTINGS, backend, queue=queue) as out:
        for _ in range(4):
            out.put(card())
        assert out.books["accepted"] == 12
        assert out.books["dropped:queue_full"] == 9
        assert out.destination.waiting == 3


async def test_closing_gives_up_what_a_backend_does_not_take():
    away = in_turn(Reply(503))
    async with serving(away) as backend, sending(SETTINGS, backend) as out:
        out.put(card())
        lost = await out.destination.drain(0.3)
        assert lost.own == 1
        assert out.books == {"accepted": 3, "dropped:shutdown": 3}


async def test_closing_tries_late_scores_once_more():
    async with serving(in_turn(Reply(404))) as backend, sending(SETTINGS, backend) as out:
        out.put(card())
        await until(lambda: len(backend.asked) > 0)
        backend.answers = in_turn(FOUND)
        await out.destination.drain(10)
        assert out.books == ALL


async def test_closing_does_not_wait_for_spans_that_never_come():
    async with serving(in_turn(Reply(404))) as backend, sending(SETTINGS, backend) as out:
        out.put(card())
        began_s = asyncio.get_running_loop().time()
        await out.destination.drain(20)
        assert asyncio.get_running_loop().time() - began_s < 5
        assert out.books == {"accepted": 3, "dropped:shutdown": 3}


async def test_the_journal_keeps_what_was_not_confirmed_and_nothing_else():
    journal = MemoryJournal()
    ledger = Ledger(journal)
    late = {"judge"}

    def answers(asked: Asked) -> Reply:
        targets = {one["span_id"] for one in asked.json["data"] if one["name"] in late}
        return Reply(404, text=" ".join(targets)) if targets else FOUND

    async with serving(answers) as backend, sending(SETTINGS, backend, ledger) as out:
        for outgoing in out.written(card()):
            entry = ledger.new_entry("scores", outgoing.body, 0, own=True)
            ledger.claim_deliveries([entry.id])
            ledger.close([entry.id], (), [entry])
            ledger.settle([entry.id])
            assert out.destination.put(replace(outgoing, entries=(entry.id,)))
        await until(lambda: out.books.get("delivered") == 1)
        # The root's two scores wait for it: all of the request is kept, and would be sent again.
        assert len(journal.left()) == 1
        late.clear()
        await out.settled()
        assert not journal.left()


async def test_a_second_backend_leaves_out_what_only_the_first_one_wants():
    async with (
        serving(in_turn(FOUND)) as backend,
        sending(SETTINGS, backend, results="all") as out,
        sending(SETTINGS, backend, results="failed") as other,
    ):
        for outgoing in out.written(card()):
            assert other.destination.put(outgoing)
        assert await other.settled() == {"accepted": 5, "delivered": 2, "left_out": 3}


async def test_calls_without_a_span_of_their_own_keep_scores_apart():
    calls = [replace(call(), executed_by=None, order=order) for order in range(2)]
    async with serving(in_turn(FOUND)) as backend, sending(SETTINGS, backend) as out:
        out.put(scorecard(*(call_result(failed(), one) for one in calls)))
        await out.settled()
        assert [one["identifier"] for one in backend.asked[0].json["data"]] == ["9f86d081884c.0", "9f86d081884c.1"]


def _differing(email: str) -> Scored:
    where = Difference(
        where="issue_refund: to", rule="equal", expected=Side(value="a"), actual=Side(value="mallory-77")
    )
    return Scored(value=0.0, explanation=f"`to` differs, ask {email}", differences=(where,), passed=False)


@pytest.mark.parametrize("shows", [False, True])
async def test_values_leave_only_where_they_may_and_masked(shows: bool):  # noqa: FBT001
    async with serving(in_turn(FOUND)) as backend, sending(SETTINGS, backend) as out:
        out.put(scorecard(call_result(_differing("bob@example.com"))), show_values=shows)
        await out.settled()
        [one] = backend.asked[0].json["data"]
        assert ("mallory-77" in str(one)) is shows
        assert "bob@example.com" not in str(one)
        assert one["metadata"]["differences"].startswith("issue_refund: to: ")


async def test_keys_are_never_written(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.DEBUG)
    async with serving(in_turn(Reply(401, text=KEY), Reply(503))) as backend, sending(SETTINGS, backend) as out:
        out.put(card())
        await out.settled()
        out.put(card())
        await until(lambda: out.destination.health.now() is not None)
        assert KEY not in caplog.text
        assert KEY not in repr(out.destination.backend)
        assert KEY not in str(out.destination.backend.model_dump(mode="json"))
        assert KEY not in str(out.destination.health.now()) + str(out.destination.health.refusing())


async def test_late_scores_are_sent_again_together():
    retry = FAST.model_copy(update={"initial_interval": 1_000_000_000, "max_interval": 1_000_000_000})
    async with serving(in_turn(Reply(404))) as backend, sending(SETTINGS, backend, retry=retry) as out:
        for number in range(10):
            before = len(backend.asked)
            out.put(scorecard(trajectory_result(passed(), f"criterion-{number}")))
            await until(lambda before=before: len(backend.asked) > before)
        backend.answers = in_turn(FOUND)
        assert await out.settled() == {"accepted": 10, "delivered": 10}
        assert max(len(asked.json["data"]) for asked in backend.asked) > 3


@pytest.mark.parametrize(
    ("others", "books"), [(("kept",), {"accepted": 3, "left_out": 3}), (("kept", None), ALL), (("all",), ALL)]
)
async def test_scores_of_traces_that_every_destination_of_spans_has_dropped_are_left_out(
    others: tuple[Literal["kept", "all"] | None, ...], books: dict[str, int]
):
    async with serving(in_turn(FOUND)) as backend, sending(SETTINGS, backend) as out:
        keeps = [None if one is None else KeepSettings(passed=0.0, scorecards=one) for one in others]
        spans = [
            DestinationSettings(name=f"otlp/{place}", endpoint="localhost:1", keep=keep)
            for place, keep in enumerate(keeps)
        ]
        to = [otlp_destination(one, out.metrics, "hop", "toolgauge/1") for one in spans]
        fan_out = FanOut([out.destination, *to], out.metrics)
        run = scorecard(call_result(passed()))
        fan_out.keepers.decide(run, ())
        out.put(replace(card(), trajectory=run.trajectory))
        assert await out.settled() == books
        for destination in to:
            await destination.close()
