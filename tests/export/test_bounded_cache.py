"""What is remembered of what spans and configurations say stays within bounds."""

from toolgauge.export.results import BoundedCache


def test_a_memo_of_large_texts_holds_no_more_bytes_than_it_may():
    memo: BoundedCache[int, bytes] = BoundedCache()
    largest = 0
    for number in range(5_000):
        memo.keep(number, bytes(8_000), 8_000)
        largest = max(largest, sum(map(len, memo.values())))
    assert 3_000_000 < largest <= 4 * 1024 * 1024
    assert 4_999 in memo


def test_what_is_too_large_is_not_remembered_and_drives_nothing_out():
    memo: BoundedCache[str, bytes] = BoundedCache()
    memo.keep("small", b"", 10)
    memo.keep("large", bytes(100_000), 100_000)
    assert list(memo) == ["small"]
