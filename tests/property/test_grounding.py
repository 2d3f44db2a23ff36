"""What holds for looking up words in any texts."""

from hypothesis import given
from hypothesis import strategies as st

from toolgauge.score.origins import value_forms
from toolgauge.score.origins.grounding import Texts

TEXTS = st.lists(st.text(alphabet="aB1 -.,:/@+_\u00e9\n", max_size=30), max_size=4)


@given(TEXTS)
def test_a_search_finds_every_word_that_an_index_has(texts: list[str]):
    contents = [value_forms.folded(text) for text in texts]
    indexed = {word for content in contents for word in value_forms.words(content)}
    found = Texts()
    found.contents.extend(contents)
    assert all(found.has(word) for word in indexed)


@given(TEXTS, st.text(alphabet="a1b2", min_size=1, max_size=3))
def test_a_plain_word_is_found_where_an_index_has_it_and_nowhere_else(texts: list[str], word: str):
    contents = [value_forms.folded(text) for text in texts]
    indexed = {one for content in contents for one in value_forms.words(content)}
    found = Texts()
    found.contents.extend(contents)
    assert [found.has(word.encode()) for _ in range(40)] == [word.encode() in indexed] * 40


def test_hits_inside_longer_words_are_few_in_all_texts_together():
    found = Texts(contents=[b"x" + b"1" * 66 + b"x"] * 8000)
    assert found.search(b"1111") is None
