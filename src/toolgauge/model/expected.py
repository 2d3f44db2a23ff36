"""What a criterion expects: the reference side of a comparison."""

from msgspec import Struct

from toolgauge.model.json import Json, JsonObject


class ExpectedOutput(Struct, frozen=True, kw_only=True):
    """An output that is expected; wraps the value so that an expected `null` differs from none given."""

    value: Json


class ExpectedCall(Struct, frozen=True, kw_only=True):
    """One expected call. `args` is `None` when only the name matters, `{}` when no arguments are expected.

    `repeat` is the inclusive range of how often the call may occur. Neighbours with the same `group` have no order
    among themselves; `None` is a group of its own.
    """

    name: str
    call_id: str | None = None
    args: JsonObject | None = None
    output: ExpectedOutput | None = None
    optional: bool = False
    repeat: tuple[int, int] = (1, 1)
    group: int | None = None
    # The kind of tool that a case names, where it is not a function.
    tool_type: str = ""


class Expected(Struct, frozen=True, kw_only=True):
    """Expected calls, one tuple a user turn (`per_turn`) or one for a plain list; none where only the final `answer` is given.

    `texts` are the roles of messages with text and of answers in a reference that is a chat, each with the number of model outputs before.
    """

    turns: tuple[tuple[ExpectedCall, ...], ...]
    per_turn: bool = False
    answer: ExpectedOutput | None = None
    texts: tuple[tuple[str, int], ...] | None = None

    @property
    def names_calls(self) -> bool:
        """Whether calls are given at all; with an empty list, none is expected."""
        return self.per_turn or bool(self.turns)

    @property
    def calls(self) -> tuple[ExpectedCall, ...]:
        """All expected calls in order."""
        # Mostly there is one tuple, and every evaluator asks.
        return self.turns[0] if len(self.turns) == 1 else tuple(call for turn in self.turns for call in turn)
