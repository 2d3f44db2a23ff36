"""How well one actual call meets one expected call: the one comparison of two calls that all evaluators share."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from toolgauge.model.expected import ExpectedCall
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.outcomes import Difference, Side
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.score.align import Alignment, Order, Pair, align
from toolgauge.score.compare import Comparison, compare, is_omissible, path, quick_agreement
from toolgauge.score.patterns import Globs
from toolgauge.score.rules import (
    ABSENT,
    NO_RULES,
    Absent,
    ArgumentRules,
    Exact,
    Ignore,
    Lenient,
    Rule,
    Scope,
    is_equivalence,
    meets_itself,
    rule_name,
)
from toolgauge.score.selection import CallComparison, Sides, make_sides


class Schemas:
    """Schemas by the tool's name; producers write them, so that nothing about their form is sure."""

    __slots__ = ("_by_tool",)

    def __init__(self, trajectory: Trajectory) -> None:
        self._by_tool: dict[str, JsonObject] = {}
        for tool in trajectory.tools_offered or ():
            if tool.parameters is not None:
                self._by_tool.setdefault(tool.name, tool.parameters)

    def required(self, tool: str) -> frozenset[str] | None:
        """Return the arguments that the tool cannot do without; `None` where no list of them was seen."""
        names = self._by_tool.get(tool, {}).get("required")
        return frozenset(name for name in names if isinstance(name, str)) if isinstance(names, list) else None

    def default(self, tool: str, argument: str) -> Json | Absent:
        """Return the declared default of an argument."""
        properties = self._by_tool.get(tool, {}).get("properties")
        declared = properties.get(argument) if isinstance(properties, dict) else None
        return declared.get("default", ABSENT) if isinstance(declared, dict) else ABSENT

    def has_defaults(self, tool: str) -> bool:
        """Return whether any argument of the tool has a declared default."""
        properties = self._by_tool.get(tool, {}).get("properties")
        declared = properties.values() if isinstance(properties, dict) else ()
        return any(isinstance(argument, dict) and "default" in argument for argument in declared)


# Of an expected argument: `met`, `partly` (a rule that knows values between), `differs`, `missing`, `omitted` (may be
# missing and is), `unread` (the call's arguments could not be read). Of an unexpected one: `default` (as the tool's
# schema declares it), `volatile` (listed as such), `invented`. Of either: `ignored`.
Word: TypeAlias = Literal[
    "met", "partly", "differs", "missing", "omitted", "unread", "default", "volatile", "invented", "ignored"
]

_SHOWN_LENGTH = 80
_EXACT = Exact()
_COSTLESS_IF_UNEXPECTED = (Ignore, Lenient)
# What comparing all pairs may cost, in microseconds of a slow core: half a second for 200 expected and 200 actual
# calls. Without it 1,000 by 1,000 calls with long texts take minutes.
_MIN_WORK, _MAX_WORK = 350_000, 4_000_000
_WORK_PER_PAIR = 8
_WORK_PER_VALUE = 3


class ArgumentComparison(CallComparison):
    """Compares arguments by rules that people can write for each of them."""

    # Which rule compares which argument; see `rules`.
    arguments: ArgumentRules = NO_RULES
    # Arguments that nobody expects and that are nobody's fault: globs over `argument` and `tool.argument`.
    volatile: tuple[str, ...] = ()

    @cached_property
    def _volatile(self) -> Globs | None:
        return Globs(self.volatile) if self.volatile else None

    def terms(
        self, trajectory: Trajectory, *, default: Rule = _EXACT, subset: bool = False, required_only: bool = False
    ) -> "Terms":
        """Return the rules for arguments; `default` is for those that no rule is written for."""
        return Terms(
            rules=self.arguments,
            default=default,
            volatile=self._volatile,
            schemas=Schemas(trajectory),
            subset=subset,
            required_only=required_only,
        )

    def comparer(
        self, expected: Sequence[ExpectedCall], calls: Sequence[ToolCall], terms: "Terms", *, names_only: bool = False
    ) -> "ArgumentComparer":
        """Make both sides ready to be compared on these terms; with `names_only` all calls of a tool are equal."""
        sides = make_sides(expected, calls, names_only=names_only, equals_meet=names_only or terms.equals_meet)
        return ArgumentComparer(sides, terms)


# `required_only`: compare only arguments that the tool's schema requires, where it lists any.
class Terms(Struct, frozen=True, kw_only=True):
    """The rules for the arguments of all tools. `subset`: arguments that are not expected cost nothing."""

    rules: ArgumentRules
    schemas: Schemas
    default: Rule = Exact()
    volatile: Globs | None = None
    subset: bool = False
    required_only: bool = False

    @property
    def equals_meet(self) -> bool:
        """Whether equal calls always meet each other; where not, they have to be compared like any others."""
        return meets_itself(self.default) and (not self.rules.root or all(map(meets_itself, self.rules.rules)))


class ArgumentVerdict(Struct, frozen=True, kw_only=True):
    """What became of one argument, and the rule that decided. `value` is from 0 to 1."""

    name: str
    word: Word
    value: float
    rule: str


class CallAgreement(Struct, frozen=True, kw_only=True):
    """How well a call meets an expected one: `value` as `weigh` returns it, and why."""

    value: float
    verdicts: tuple[ArgumentVerdict, ...] = ()
    differences: tuple[Difference, ...] = ()


class Figures(Struct):
    """Arguments over several pairs of calls; `given` leaves out those that cost nothing."""

    met: float = 0.0
    expected: int = 0
    given: int = 0
    words: dict[Word, int] = {}

    def add(self, agreement: CallAgreement) -> None:
        """Count the arguments of a pair."""
        for verdict in agreement.verdicts:
            self.words[verdict.word] = self.words.get(verdict.word, 0) + 1
            self.met += verdict.value if verdict.word in _ANSWERED else 0.0
            self.expected += verdict.word in _EXPECTED
            self.given += verdict.word in _ANSWERED or verdict.word == "invented"

    def parts(self) -> dict[str, float]:
        """Return `recall` (arguments met / expected), `precision` (met / given), and counts of unexpected ones."""
        parts: dict[str, float] = {}
        if self.expected:
            parts["recall"] = min(self.met / self.expected, 1.0)
        if self.given:
            parts["precision"] = min(self.met / self.given, 1.0)
        names: Mapping[Word, str] = {"invented": "invented", "default": "defaults", "volatile": "volatile"}
        return {**parts, **{name: self.words[word] for word, name in names.items() if word in self.words}}


_ANSWERED = frozenset(("met", "partly", "differs"))
_EXPECTED = frozenset(("met", "partly", "differs", "missing", "unread"))


class _Wanted(Struct, frozen=True):
    name: str
    identity: int
    ruling: "_Ruling"
    omissible: bool


class _Ruling(Struct, frozen=True):
    scope: Scope
    # Equality of the numbers decides.
    is_plain: bool
    equals_meet: bool
    # What was found out about values, by both numbers.
    alike: dict[tuple[int, int], float] = {}


# `is_cut_short`: too many values to compare each with each. Those left over counted as different while pairing: the pairs may
# not be the best, but each comparison holds.
class ArgumentComparer:
    """Compares expected with actual calls, each by its index in `sides`; the same two values only once."""

    def __init__(self, sides: Sides, terms: Terms) -> None:
        self.sides = sides
        self.is_cut_short = False
        self._is_limited = True
        self._terms = terms
        pairs = len(sides.slots) * len(sides.calls)
        self._work_left = min(max(pairs * _WORK_PER_PAIR, _MIN_WORK), _MAX_WORK)
        self._rulings: dict[tuple[str, str], _Ruling] = {}
        self._forgiving: dict[str, bool] = {}
        self._wanted: dict[int, tuple[_Wanted, ...]] = {}
        self._charged: dict[int, frozenset[str]] = {}

    @property
    def may_peel(self) -> bool:
        """Whether `align` may settle equal calls first, see there."""
        # 1 - value is a distance where equality decides each argument and both sides count alike. Where only expected arguments count,
        # expected calls of a tool must have equally many: else one with many and one with few may do better with exchanged partners.
        terms = self._terms
        if not is_equivalence(terms.default) or not terms.equals_meet:
            return False
        if terms.rules.root and not all(map(is_equivalence, terms.rules.rules)):
            return False
        if terms.subset:
            sizes: dict[str, set[int]] = {}
            for index, slot in enumerate(self.sides.slots):
                if self.sides.slot_arguments[index] is not None:
                    sizes.setdefault(slot.name, set()).add(len(self._of_slot(index)))
            return all(len(found) == 1 for found in sizes.values())
        if terms.volatile is not None or terms.required_only:
            return False
        return not any(map(terms.schemas.has_defaults, {slot.name for slot in self.sides.slots}))

    def aligned(self, *, order: Order = "any", whole: bool = False) -> Alignment:
        """Pair the calls for the greatest sum of what `weigh` returns; with `whole`, only those that meet in all."""
        alignment = align(
            self.sides.slot_items,
            self.sides.call_items,
            (lambda slot, call: 1.0 if self.weigh(slot, call) == 1.0 else None) if whole else self.weigh,
            order=order,
            peel=self.may_peel,
        )
        self._is_limited = False
        if not self.is_cut_short:
            return alignment
        pairs: list[Pair] = []
        for pair in alignment.pairs:
            value = 1.0 if pair.value == 1.0 else self.weigh(pair.expected, pair.actual)
            pairs.append(Pair(expected=pair.expected, actual=pair.actual, value=value or 0.0))
        return replace(alignment, pairs=tuple(pairs))

    def weigh(self, slot: int, call: int) -> float | None:
        """Return the sum over the expected arguments / the number of them and of invented ones; `None` where ids forbid it."""
        if not self.sides.may_pair(slot, call):
            return None
        wanted, found = self.sides.slot_arguments[slot], self.sides.call_arguments[call]
        if wanted is None:
            return 1.0
        if found is None:
            return 0.0
        met, counted = 0.0, 0
        arguments = self._of_slot(slot)
        for argument in arguments:
            identity = found.get(argument.name)
            if identity is None:
                counted += not argument.omissible
                continue
            counted += 1
            if identity == argument.identity and argument.ruling.equals_meet:
                met += 1.0
            elif not argument.ruling.is_plain:
                known = argument.ruling.alike.get((argument.identity, identity))
                met += self._value(slot, call, argument, identity) if known is None else known
        if not self._terms.subset:
            counted += len(self._charged_of(call) - wanted.keys())
        return min(met / counted, 1.0) if counted else 1.0

    def compare(self, slot: int, call: int, *, explain: bool = True) -> CallAgreement:
        """Compare a pair that may be; without `explain` there are no differences."""
        wanted, found = self.sides.slot_arguments[slot], self.sides.call_arguments[call]
        if wanted is None:
            return CallAgreement(value=1.0)
        tool = f"{self.sides.slots[slot].name[:_SHOWN_LENGTH]}:"
        if found is None:
            expected = self.sides.slot_values(slot)
            names = [argument.name for argument in self._of_slot(slot)]
            unread = tuple(ArgumentVerdict(name=name, word="unread", value=0.0, rule="unparsable") for name in names)
            difference = Difference(where=f"{tool} arguments", rule="unparsable", expected=Side(value=expected))
            return CallAgreement(value=0.0, verdicts=unread, differences=(difference,))
        verdicts: list[ArgumentVerdict] = []
        differences: list[Difference] = []
        for name in wanted:
            verdict, found_differences = self._expected(slot, call, name, tool, explain=explain)
            verdicts.append(verdict)
            differences += found_differences
        for name in found:
            if name not in wanted:
                word = self._word(call, name)
                verdict = ArgumentVerdict(name=name, word=word, value=0.0, rule="ignore" if word == "ignored" else word)
                verdicts.append(verdict)
                if explain and verdict.word == "invented" and not self._terms.subset:
                    given = Side(value=self.sides.call_values(call)[name])
                    differences.append(Difference(where=path(tool, name), rule="invented", actual=given))
        costly = _EXPECTED if self._terms.subset else _EXPECTED | {"invented"}
        counted = sum(verdict.word in costly for verdict in verdicts)
        value = min(sum(verdict.value for verdict in verdicts) / counted, 1.0) if counted else 1.0
        return CallAgreement(value=value, verdicts=tuple(verdicts), differences=tuple(differences))

    def equal_arguments(self, slot: int, call: int) -> int | None:
        """Return how many arguments a pair has that is equal, where no rule could think otherwise; else `None`."""
        terms, wanted = self._terms, self.sides.slot_arguments[slot]
        if wanted is None or wanted != self.sides.call_arguments[call]:
            return None
        return None if terms.rules.root or terms.required_only else len(wanted)

    def _expected(
        self, slot: int, call: int, name: str, tool: str, *, explain: bool
    ) -> tuple[ArgumentVerdict, tuple[Difference, ...]]:
        for argument in self._of_slot(slot):
            if argument.name == name:
                break
        else:
            return ArgumentVerdict(name=name, word="ignored", value=0.0, rule="ignore"), ()
        rule = rule_name(argument.ruling.scope.rule)
        identity = (self.sides.call_arguments[call] or {}).get(name)
        if identity is None:
            if argument.omissible:
                return ArgumentVerdict(name=name, word="omitted", value=0.0, rule=rule), ()
            missing = Difference(
                where=path(tool, name), rule=rule, expected=Side(value=self.sides.slot_values(slot)[name])
            )
            return ArgumentVerdict(name=name, word="missing", value=0.0, rule=rule), (missing,)
        value = 1.0
        if identity != argument.identity or not argument.ruling.equals_meet:
            value = 0.0 if argument.ruling.is_plain else self._value(slot, call, argument, identity)
        differences: tuple[Difference, ...] = ()
        if value < 1.0 and explain:
            differences = self._compared(slot, call, argument, path(tool, name)).differences
        word: Word = "met" if value == 1.0 else "partly" if value > 0.0 else "differs"
        return ArgumentVerdict(name=name, word=word, value=value, rule=rule), differences

    def _of_slot(self, slot: int) -> tuple[_Wanted, ...]:
        found = self._wanted.get(slot)
        if found is not None:
            return found
        expected = self.sides.slots[slot]
        required = self._terms.schemas.required(expected.name) if self._terms.required_only else None
        wanted: list[_Wanted] = []
        for name, identity in (self.sides.slot_arguments[slot] or {}).items():
            ruling = self._ruling(expected.name, name)
            if isinstance(ruling.scope.rule, Ignore) or (required is not None and name not in required):
                continue
            is_spared = not ruling.is_plain and is_omissible(ruling.scope.rule, self.sides.slot_values(slot)[name])
            wanted.append(_Wanted(name, identity, ruling, is_spared))
        self._wanted[slot] = tuple(wanted)
        return self._wanted[slot]

    def _ruling(self, tool: str, argument: str) -> _Ruling:
        # Without rules for any of them all are compared alike.
        place = (tool, argument) if self._terms.rules.root else ("", "")
        if place not in self._rulings:
            scope = self._terms.rules.of(tool, argument, self._terms.default)
            is_plain = isinstance(scope.rule, Exact) and not scope.deeper
            self._rulings[place] = _Ruling(scope, is_plain, equals_meet=is_plain or all(map(meets_itself, scope.rules)))
        return self._rulings[place]

    def _charged_of(self, call: int) -> AbstractSet[str]:
        """Return the arguments of the call that cost something where they are not expected."""
        tool = self.sides.calls[call].name
        if tool not in self._forgiving:
            terms = self._terms
            self._forgiving[tool] = bool(terms.rules.root or terms.volatile or terms.schemas.has_defaults(tool))
        if not self._forgiving[tool]:
            return (self.sides.call_arguments[call] or {}).keys()
        if call not in self._charged:
            names = self.sides.call_arguments[call] or ()
            self._charged[call] = frozenset([name for name in names if self._word(call, name) == "invented"])
        return self._charged[call]

    def _word(self, call: int, name: str) -> Word:
        """Name the kind of an unexpected argument."""
        terms, tool = self._terms, self.sides.calls[call].name
        if terms.rules.root and isinstance(self._ruling(tool, name).scope.rule, _COSTLESS_IF_UNEXPECTED):
            return "ignored"
        if terms.volatile is not None and (terms.volatile.match(name) or terms.volatile.match(f"{tool}.{name}")):
            return "volatile"
        default = terms.schemas.default(tool, name)
        if isinstance(default, Absent):
            return "invented"
        given = self.sides.call_values(call)[name]
        comparison = compare(Exact(), default, given, where="")
        return "default" if comparison.value == 1.0 else "invented"

    def _value(self, slot: int, call: int, argument: _Wanted, identity: int) -> float:
        """Return how well a value meets its rule; many calls share values, so that the same two are compared once."""
        key = (argument.identity, identity)
        if key in argument.ruling.alike:
            return argument.ruling.alike[key]
        if self._is_limited and self._work_left <= 0:
            self.is_cut_short = True
            return float(argument.ruling.equals_meet and argument.identity == identity)
        expected, actual = self.sides.slot_values(slot)[argument.name], self.sides.call_values(call)[argument.name]
        quick = quick_agreement(argument.ruling.scope, expected, actual)
        if quick is None:
            comparison = self._compared(slot, call, argument, "")
            value, work = comparison.value, comparison.work
        else:
            value, work = quick
        self._work_left -= _WORK_PER_VALUE + work
        argument.ruling.alike[key] = value
        return value

    def _compared(self, slot: int, call: int, argument: _Wanted, where: str) -> Comparison:
        expected, actual = self.sides.slot_values(slot)[argument.name], self.sides.call_values(call)[argument.name]
        return compare(argument.ruling.scope, expected, actual, where=where)
