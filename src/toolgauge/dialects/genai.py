"""The OpenTelemetry GenAI and MCP conventions: current form, events, and the per-message events up to 1.36.

This is the fallback for whoever follows the conventions; `recognize/conventions` reads them.
"""

from collections.abc import Iterable, Mapping

from toolgauge.model.json import Value
from toolgauge.model.observations import CallRequested, MessageSeen, Observation, Operation
from toolgauge.model.ports import Grounds
from toolgauge.model.records import LogRecord, Record, Span
from toolgauge.recognize import conventions, conventions_reader
from toolgauge.recognize.dialect import PlainDialect


class GenAI(PlainDialect):
    """Reads what follows the conventions; asked after the vendors' dialects, which borrow their attributes."""

    name = "genai"
    rank = 90
    marks = ("gen_ai.", conventions.MCP_METHOD, conventions.MCP_TOOL)
    scopes = (conventions_reader.SCOPE,)
    grounds = Grounds(
        keys=(
            conventions.OPERATION,
            conventions.MCP_METHOD,
            conventions.MCP_TOOL,
            conventions.CONVERSATION,
            conventions.OUTPUT,
        ),
        scopes=(conventions_reader.SCOPE,),
        names=(conventions.EXECUTE + " ",),
    )

    def claims(self, record: Record) -> bool:
        """Claim spans with an operation, an MCP method or tool, or a model's output, and the conventions' log events."""
        if isinstance(record, LogRecord):
            return record.event_name in conventions.MESSAGE_EVENTS or record.event_name == conventions.DETAILS
        attributes = record.attributes
        return (
            conventions.OPERATION in attributes
            or conventions.MCP_METHOD in attributes
            or conventions.MCP_TOOL in attributes
            or conventions.CONVERSATION in attributes
            or conventions.OUTPUT in attributes
            or record.name.startswith(conventions.EXECUTE + " ")
            or conventions_reader.is_raw(record)
        )

    def read(self, record: Record) -> list[Observation]:
        """Read one span or log record."""
        return self._conventions.read(record)

    def operation(self, attributes: Mapping[str, Value]) -> Operation | None:
        """Go by the name of the operation."""
        return conventions_reader.operation(attributes)

    def history(self, span: Span) -> Iterable[CallRequested | MessageSeen]:
        """Read the calls in the history that a model was given, and the texts of the user between them."""
        return self._conventions.history(span)
