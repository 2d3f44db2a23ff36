"""Looks for the ids that an answer states, in all that was seen, in arguments that worked and in definitions of tools."""

from collections.abc import Iterator, Set
from functools import cached_property

from toolgauge.model.content import Recorded
from toolgauge.model.left_out import marked
from toolgauge.score.origins import value_forms
from toolgauge.score.origins.grounding import Seen, Texts, folded_json
from toolgauge.score.origins.value_origin import Value, origin
from toolgauge.score.selection import has_taken_effect


class GivenIds:
    """The ids in all texts of `seen`, which has taken all of them."""

    def __init__(self, seen: Seen) -> None:
        self._seen = seen
        self._texts = [content for _, texts in seen.sources() for content in texts.contents]

    def has(self, text: str) -> bool:
        """Return whether an id was given: in any spelling, or as a part."""
        bare = value_forms.folded(text.lstrip("#"))
        if self._seen.earlier.has_word(bare) or any(bare in content for content in self._all()):
            return True
        return origin(Value((), "id", text), "", self._seen) is not None or self._spells(bare)

    @cached_property
    def _made(self) -> Texts:
        """The arguments of calls that worked, and the definitions of the tools on offer."""
        made, trajectory = Texts(), self._seen.trajectory
        for call in trajectory.calls:
            if has_taken_effect(call) and isinstance(call.arguments, Recorded):
                made.contents.append(folded_json(call.arguments.value) or b"")
        runs = (run.tools_offered or () for run in trajectory.runs)
        offers = (trajectory.tools_offered or (), *runs, trajectory.registered_tools.values())
        for name in {tool.name for tools in offers for tool in tools}:
            made.contents += self._seen.schema(name).contents
        return made

    def _all(self) -> Iterator[bytes]:
        yield from self._texts
        yield from self._made.contents

    def _spells(self, word: bytes) -> bool:
        """Return whether the same letters and digits stand there with other signs between them."""
        if self._seen.earlier.has_word(marked("argument", word)):
            return True
        bare = word.translate(None, value_forms.SIGNS)
        return any(bare in content.translate(None, value_forms.SIGNS) for content in self._all())

    def names_ids_of(self, noun: str) -> bool:
        """Return whether a place of arguments or results is named as the id of a thing: `order_id`, `orderId`."""
        names = [f"{noun}{word}".encode() for word in ("_id", "_number", "_no", "id", "number")]
        return any(map(self._seen.earlier.has_word, names)) or any(
            name in content for content in self._all() for name in names
        )

    def has_form(self, word: bytes) -> bool:
        """Return whether any word of the texts has the letters and digits of a word at the same places."""
        form = value_forms.form(word)
        return self._seen.earlier.has_word(marked("form", form)) or form in self._forms

    @cached_property
    def _forms(self) -> Set[bytes]:
        return value_forms.forms(
            b" ".join([one for text in self._all() for one in value_forms.ids(value_forms.id_words(text))])
        )
