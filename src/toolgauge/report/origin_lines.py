"""Words the origins of argument values, for every output. The redactor decides which values and names are shown.

Rule: no step is called the cause of a failure: a line names the origin of a value and no more.
"""

from collections.abc import Iterator, Mapping, Sequence

from toolgauge.export.json_text import MASKED
from toolgauge.export.redact import Redactor
from toolgauge.model.value_origins import CallOrigins, ValueOrigin, ValueSource

_MAX_NAME, _MAX_VALUE, _MAX_LINE = 80, 60, 600
_SOURCES: Mapping[ValueSource, str] = {
    "user": "from the user",
    "system": "from the system prompt",
    "schema": "from the description of the tool",
    "result": "from results of earlier calls",
    "earlier": "from an earlier trace of the conversation",
    "derived": "derived from earlier values",
    "model": "the model's own",
    "common": "too common to trace",
    "unknown": "the model's own or from something that was not recorded",
}


class OriginWriter:
    """Writes lines; `first` is the number that the output gives to the first call of a trajectory."""

    def __init__(self, redactor: Redactor, *, first: int = 1) -> None:
        self._redactor = redactor
        self._first = first

    def lines(self, origins: CallOrigins | None) -> tuple[str, ...]:
        """Write one line for each argument value of a call; none without a call."""
        if origins is None:
            return ()
        more = [f"and {origins.more} more {'value' if origins.more == 1 else 'values'}"] if origins.more else []
        return (*map(self._line, origins.values), *more)

    def call(self, origins: CallOrigins) -> str:
        """Name a call by its number and tool."""
        return f"call {origins.call.order + self._first} {self._quoted(origins.call.name)}"

    def _line(self, one: ValueOrigin) -> str:
        value = ""
        if self._redactor.is_private(one.path):
            value = f" {MASKED}"
        elif self._redactor.shows_values:
            text = self._redactor.json(one.value, _MAX_VALUE)
            value = f" {text[:_MAX_VALUE]}{'…' if len(text) > _MAX_VALUE else ''}"
        line = f"{self._quoted(one.path)}{value} is {self._source(one, set())}"
        return line if len(line) <= _MAX_LINE else f"{line[:_MAX_LINE]}…"

    def _source(self, one: ValueOrigin, described: set[int]) -> str:
        """Write where a value is from, back to where it begins; a call that the line has described is only named."""
        if one.result_of is None:
            return _SOURCES[one.source]
        origins = one.result_of
        source = f"from the result of {self.call(origins)}"
        if origins.call.order in described:
            return source
        described.add(origins.call.order)
        parts = [*self._behind(origins, described)]
        return source if not parts else f"{source}, {parts[0]}" if len(parts) == 1 else f"{source} ({'; '.join(parts)})"

    def _behind(self, origins: CallOrigins, described: set[int]) -> Iterator[str]:
        """Write where the values of a call behind another are from; values from one place stand together."""
        groups: dict[tuple[ValueSource, int | None], list[ValueOrigin]] = {}
        for one in origins.values:
            order = None if one.result_of is None else one.result_of.call.order
            groups.setdefault((one.source, order), []).append(one)
        for group in groups.values():
            names = _listed([self._quoted(one.path) for one in group])
            yield f"whose {names} {'is' if len(group) == 1 else 'are'} {self._source(group[0], described)}"
        if origins.more:
            yield f"{origins.more} more of its values {'is' if origins.more == 1 else 'are'} not followed"

    def _quoted(self, name: str) -> str:
        shown = self._redactor.masked(name, _MAX_NAME)[:_MAX_NAME]
        return f"`{''.join(letter if letter.isprintable() else ' ' for letter in shown)}`"


def _listed(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
