"""What is told of cut texts does not depend on arrival, and never denies an id that was there."""

from hypothesis import example, given
from hypothesis import strategies as st

from tests.assemble.support import assembler, executed, reading
from toolgauge.assemble.settings import AssembleSettings
from toolgauge.model.content import Recorded
from toolgauge.model.left_out import LeftOut

IDS = st.from_regex(r"[A-Za-z]{0,4}[-_]?[0-9]{1,6}", fullmatch=True)
PIECES = st.text(max_size=30) | IDS | st.sampled_from(["x" * 700, "word " * 200, "[... left out ...]", "1 2 3 " * 100])
TEXTS = st.lists(PIECES, min_size=1, max_size=6).map(" ".join)


def left_out(texts: list[str]) -> LeftOut:
    box, _ = assembler(AssembleSettings(max_content_bytes=1000))
    for text in texts:
        number = len(text) % 10_000
        name = f"{abs(hash(text)) % 10**7}"
        box.add(reading(name, executed("f", result=Recorded(text)), start=number, size=len(text) + 100), 0)
    return next(iter(box.close_all(1))).left_out


@given(texts=st.lists(TEXTS, min_size=1, max_size=8, unique=True), data=st.data())
def test_any_order_of_arrival_holds_the_same(texts: list[str], data: st.DataObject):
    assert left_out(data.draw(st.permutations(texts))) == left_out(texts)


@given(before=st.text(max_size=200), wanted=IDS, after=st.text(max_size=200))
def test_an_id_in_the_cut_part_is_held(before: str, wanted: str, after: str):
    text = f"{'x ' * 700}{before} {wanted} {after}{' x' * 700}"
    assert left_out([text]).holds(wanted) is True


@given(before=st.text(max_size=200), wanted=st.text(max_size=70), after=st.text(max_size=200))
@example(before="", wanted="0;1²", after="")
def test_what_was_in_the_cut_part_is_never_denied(before: str, wanted: str, after: str):
    # Digits right beside would make another number of it.
    text = f"{'x ' * 700}{before} {wanted} {after}{' x' * 700}"
    assert left_out([text]).holds(wanted) is not False
