"""`bfcl.ast` as the checker of BFCL judges Python categories (package bfcl-eval 2026.3.23): accepted or not.

Expected calls come with a list of accepted values for each argument, "" marking one that may be left out. The functions
are the tools on offer, whose JSON Schema is put in BFCL's words.
"""

from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict, JsonValue

from toolgauge.model.expected import Expected
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.outcomes import Difference, Errored, Level, NotEvaluated, Outcome, Scored, Side
from toolgauge.model.ports import Evaluation, Needs
from toolgauge.model.trajectory import Trajectory
from toolgauge.score.accepted_values import (
    Checker,
    Fault,
    Function,
    NamedCall,
    as_items,
    described,
)
from toolgauge.score.plain_calls import first_without, plain_expected
from toolgauge.score.selection import hidden_calls, readable_arguments, shown, unseen_arguments


class AllowedCall(BaseModel):
    """One expected call: for each argument the values that are accepted."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    args: dict[str, list[JsonValue]]


class Ast(BaseModel):
    """Whether the calls are accepted: 1 if so, else 0.

    Each argument must have one of its accepted values, of the type that the function declares or that the accepted
    values have. Strings are compared without case, spaces and `,./-_*^`. Only an argument that may be left out may
    be missing, and none that is not listed may be given. Of several expected calls each takes the first that fits, in
    any order, and there must be as many calls.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: ClassVar[str] = "1"
    level: ClassVar[Level] = "trajectory"
    needs: ClassVar[Needs] = Needs(binary=True)

    # Without it, only the expected calls of the criterion are accepted.
    allowed: tuple[AllowedCall, ...] | None = None
    # `dot_to_underscore` where the provider of the model forbids dots in names of functions.
    name_rule: Literal["exact", "dot_to_underscore"] = "exact"
    # BFCL's category; without it the number of expected calls and of functions tells.
    test_category: str | None = None

    def evaluate(self, trajectory: Trajectory, expected: Expected | None) -> Iterator[Evaluation]:
        """Yield one outcome for the trajectory."""
        allowed = self._allowed(expected)
        if allowed is None:
            yield None, NotEvaluated(reason="no_reference", explanation="no calls are given to compare with")
            return
        if isinstance(allowed, Errored):
            yield None, allowed
            return
        if not allowed:
            yield None, NotEvaluated(reason="nothing_expected", explanation="no call is expected")
            return
        unseen = next((unseen for call in trajectory.calls if (unseen := unseen_arguments(call))), None)
        if trajectory.hidden_turns:
            unseen = hidden_calls(trajectory)
        functions = unseen or self._functions(trajectory, allowed)
        if isinstance(functions, NotEvaluated):
            yield None, functions
            return
        if self.allowed is None:
            allowed = [_in_lists(call, self._of_name(functions, call)) for call in allowed]
        named = [
            NamedCall(call.name, arguments)
            for call in trajectory.calls
            if (arguments := readable_arguments(call)) is not None
        ]
        is_readable = len(named) == len(trajectory.calls)
        fault = self._checked(named, allowed, functions) if is_readable else Fault("ast_decoder:decoder_failed")
        yield None, _outcome(fault)

    @classmethod
    def case_parameters(cls, expected: JsonObject, actual: JsonObject) -> JsonObject:  # noqa: ARG003 (`allowed` is BFCL's own word)
        """Return the parameter that a case's accepted values stand for."""
        return {"allowed": expected["allowed"]} if "allowed" in expected else {}

    def original(self, outcome: Outcome, *_: object) -> JsonObject:
        """Return the original's type of the error."""
        if not isinstance(outcome, Scored):
            return {}
        return {"details": {"error_type": outcome.differences[0].rule if outcome.differences else None}}

    def _allowed(self, expected: Expected | None) -> list[NamedCall] | Errored | None:
        if self.allowed is not None:
            return [
                NamedCall(call.name, {name: list(values) for name, values in call.args.items()})
                for call in self.allowed
            ]
        if expected is None or not expected.names_calls:
            return None
        plain = plain_expected(expected.calls)
        if isinstance(plain, Errored):
            return plain
        return [NamedCall(call.name, {name: [value] for name, value in (call.args or {}).items()}) for call in plain]

    def _functions(self, trajectory: Trajectory, allowed: Sequence[NamedCall]) -> list[Function] | NotEvaluated:
        """Describe the tools on offer, those that are expected by the name that is expected."""
        if trajectory.tools_offered is None:
            return NotEvaluated(reason="no_tool_offer", explanation="which tools were on offer was not recorded")
        offered = {self._spelled(tool.name): tool for tool in trajectory.tools_offered}
        expected = {self._spelled(call.name): call.name for call in allowed}
        for spelled, name in expected.items():
            if spelled not in offered or offered[spelled].parameters is None:
                return NotEvaluated(
                    reason="no_schema", explanation=f"the parameters of {shown(name)} were not recorded"
                )
        # BFCL looks only at the first of several functions where one call is expected and it knows no better.
        tools = {spelled: offered[spelled] for spelled in expected} | offered
        return [described(spelled, tool) for spelled, tool in tools.items()]

    def _spelled(self, name: str) -> str:
        return name if self.name_rule == "exact" else name.replace(".", "_")

    def _checked(
        self, calls: Sequence[NamedCall], allowed: Sequence[NamedCall], functions: Sequence[Function]
    ) -> Fault | None:
        category = self.test_category
        if category is None:
            category = "parallel" if len(allowed) > 1 else "multiple" if len(functions) > 1 else "simple"
        checker = Checker()
        if "parallel" not in category:
            kind = "multiple_function_checker" if "multiple" in category else "simple_function_checker"
            # Wart: of several expected calls in these categories only the first is looked at.
            if len(calls) != (len(allowed) if "multiple" in category else 1):
                return Fault(f"{kind}:wrong_count")
            function = self._of_name(functions, allowed[0]) if "multiple" in category else functions[0]
            return checker.fault(function, calls[0], allowed[0].args)
        if len(calls) != len(allowed):
            return Fault("parallel_function_checker_no_order:wrong_count")
        prepared = [self._of_name(functions, call) for call in allowed]

        def fits(index: int, place: int) -> bool:
            return checker.fault(prepared[index], calls[place], allowed[index].args) is None

        index = first_without([function.name for function in prepared], [call.name for call in calls], fits)
        if index is None:
            return None
        return Fault("parallel_function_checker_no_order:cannot_find_match", where=allowed[index].name)

    def _of_name(self, functions: Sequence[Function], call: NamedCall) -> Function:
        return next(function for function in functions if function.name == self._spelled(call.name))


def _outcome(fault: Fault | None) -> Scored:
    if fault is None:
        return Scored(value=1.0, explanation="the calls are accepted")
    where = f" at {shown(fault.where)}" if fault.where else ""
    difference = Difference(
        where=fault.where or "calls", rule=fault.error_type, expected=Side(value=fault.allowed), actual=fault.found
    )
    return Scored(value=0.0, explanation=f"{fault.error_type}{where}", differences=(difference,))


def _in_lists(call: NamedCall, function: Function) -> NamedCall:
    """Write expected values as accepted ones: inside of declared objects stand lists of them."""
    lists: JsonObject = {}
    for name, one in call.args.items():
        kind, items = function.properties.get(name, ("", ""))
        lists[name] = [_listed(value, kind, items) for value in as_items(one)]
    return NamedCall(call.name, lists)


def _listed(value: Json, kind: str, items: str) -> Json:
    if kind == "dict" and isinstance(value, dict):
        return {name: [inner] for name, inner in value.items()}
    is_list = kind in ("array", "tuple") and isinstance(value, list)
    return [_listed(item, items, "") for item in value] if is_list and isinstance(value, list) else value
