"""Reads Mirascope's model calls: the conventions, with the arguments of calls as the model wrote them."""

from collections import ChainMap
from collections.abc import Iterator

from toolgauge.model.json import Value
from toolgauge.model.observations import Observation
from toolgauge.model.ports import Grounds
from toolgauge.model.records import Span
from toolgauge.recognize import conventions, values
from toolgauge.recognize.dialect import PlainDialect
from toolgauge.recognize.messages import Messages, read_messages

_CONTENT = "mirascope.response.content"
_MESSAGES = "mirascope.response.messages"
_SESSION = "mirascope.ops.session.id"


class Mirascope(PlainDialect):
    """Reads spans with a response or a session of Mirascope."""

    name = "mirascope"
    rank = 74
    marks = ("mirascope.",)
    grounds = Grounds(keys=(_CONTENT, _SESSION))

    def _read(self, span: Span) -> Iterator[Observation]:
        attributes = span.attributes
        yield from conventions.conversation(attributes, (_SESSION,))
        # Spans around a model call repeat its content.
        if attributes.get(conventions.OPERATION) in conventions.MODEL_OPERATIONS:
            content = values.as_list(values.decoded(attributes.get(_CONTENT)))
            written: dict[str, Value] = (
                {conventions.OUTPUT: [{"role": "assistant", "content": content}]} if content else {}
            )
            yield from self._conventions.model_call(ChainMap(written, {**attributes}), span.ref.trace_id)

    def _given(self, span: Span) -> Messages | None:
        given = span.attributes.get(_MESSAGES)
        return None if given is None else read_messages(given, "user")
