"""When messages that are not whole are given up; the calls are fakes, the clock is the loop's own."""

import asyncio

from toolgauge.receive.otlp_handler import Uploads
from toolgauge.receive.refusal import Refusal


class FakeUpload:
    """Remembers how it was refused."""

    def __init__(self) -> None:
        self.refused: Refusal | None = None
        self.is_over = asyncio.Event()

    async def give_up(self, refused: Refusal) -> None:
        self.refused = refused
        self.is_over.set()

    async def ended(self) -> Refusal:
        await asyncio.wait_for(self.is_over.wait(), 60)
        assert self.refused is not None
        return self.refused


async def test_all_that_are_not_whole_are_given_up_when_memory_is_short():
    uploads = Uploads(1000, lambda _size: False)
    begun = [FakeUpload() for _ in range(3)]
    for upload in begun:
        uploads.begin(upload.give_up)
    assert [(await upload.ended()).outcome for upload in begun] == ["refused"] * 3


async def test_as_much_is_asked_for_as_may_have_come_in():
    asked: list[int] = []

    def has_memory(size_bytes: int) -> bool:
        asked.append(size_bytes)
        return len(asked) < 3

    uploads = Uploads(1000, has_memory)
    begun = [FakeUpload() for _ in range(4)]
    for upload in begun:
        uploads.begin(upload.give_up)
    uploads.end(begun[0].give_up)
    await begun[1].ended()
    assert asked == [3000] * 3


async def test_one_that_became_whole_in_time_is_left_alone():
    uploads = Uploads(1000, lambda _size: False)
    whole, half = FakeUpload(), FakeUpload()
    uploads.begin(whole.give_up)
    uploads.begin(half.give_up)
    uploads.end(whole.give_up)
    await half.ended()
    assert whole.refused is None


async def test_one_that_becomes_whole_while_others_are_told_is_left_alone():
    uploads = Uploads(1000, lambda _size: False)

    class Another(FakeUpload):
        async def give_up(self, refused: Refusal) -> None:
            uploads.end(whole.give_up)
            await super().give_up(refused)

    half, whole, last = Another(), FakeUpload(), FakeUpload()
    for upload in (half, whole, last):
        uploads.begin(upload.give_up)
    await last.ended()
    assert half.refused is not None
    assert whole.refused is None


async def test_one_that_takes_for_ever_is_plainly_claimed_that_it_did_not_come_in_time():
    uploads = Uploads(1000, lambda _size: True, patience_s=0.05)
    slow = FakeUpload()
    uploads.begin(slow.give_up)
    refused = await slow.ended()
    assert (refused.outcome, refused.http_status, refused.retry_after_s) == ("invalid", 408, None)
