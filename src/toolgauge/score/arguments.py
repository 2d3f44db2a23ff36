"""Compares actual with expected calls, argument by argument, and words the result for all evaluators.

Calls that have no counterpart leave as counts, differences and notes: missing, unexpected, out of order, other arguments.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Literal, NamedTuple, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from toolgauge.model.expected import ExpectedCall
from toolgauge.model.json import JsonObject
from toolgauge.model.outcomes import OTHER_ARGUMENTS, Difference, Side
from toolgauge.model.plain_words import argument_words, rule_words
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.score.align import Alignment, Order, align
from toolgauge.score.compare import compare, describe, is_omissible, path, quick_agreement
from toolgauge.score.patterns import Globs
from toolgauge.score.rules import (
    NO_RULES,
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
from toolgauge.score.selection import CallComparison, Sides, first_names, first_notes, make_sides, shown
from toolgauge.score.tool_schemas import schema_at, value_at

# Of an expected argument: `met`, `partly` (a rule that knows values between), `differs`, `missing`, `omitted` (may be
# missing and is), `unread` (the call's arguments could not be read). Of an unexpected one: `default` (as the tool's
# schema declares it), `volatile` (listed as such), `invented`. Of either: `ignored`.
Word: TypeAlias = Literal[
    "met", "partly", "differs", "missing", "omitted", "unread", "default", "volatile", "invented", "ignored"
]

_ANSWERED = frozenset(("met", "partly", "differs"))
_EXPECTED = frozenset(("met", "partly", "differs", "missing", "unread"))
_UNEXPECTED: Mapping[Word, str] = {"invented": "invented", "default": "defaults", "volatile": "volatile"}
_SHOWN_LENGTH, _SHOWN_NAMES, _DESCRIBED = 80, 5, 4
_MAX_DIFFERENCES = 20
_EXACT = Exact()
# The most that comparing all pairs may cost, in microseconds of a slow core: half a second for 200 expected and 200 actual
# calls. Without it 1,000 by 1,000 calls with long texts take minutes.
_MIN_WORK, _MAX_WORK = 350_000, 4_000_000
_WORK_PER_PAIR = 8
_WORK_PER_VALUE = 3


class ArgumentComparison(CallComparison):
    """Compares arguments, each by the rule that people can write for it."""

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
        """Return the rules for arguments; `default` is for arguments without a rule."""
        offered = trajectory.tools_offered or ()
        return Terms(
            rules=self.arguments,
            default=default,
            volatile=self._volatile,
            schemas={one.name: one.parameters for one in reversed(offered) if one.parameters is not None},
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
    schemas: Mapping[str, JsonObject]
    default: Rule = Exact()
    volatile: Globs | None = None
    subset: bool = False
    required_only: bool = False

    @property
    def equals_meet(self) -> bool:
        """Whether equal calls always meet each other; where not, they have to be compared like any others."""
        return meets_itself(self.default) and (not self.rules.root or all(map(meets_itself, self.rules.rules)))


class ArgumentVerdict(NamedTuple):
    """The verdict on one argument; `value` is from 0 to 1."""

    name: str
    word: Word
    value: float = 0.0


class Figures(Struct):
    """Arguments over several pairs of calls; `given` leaves out arguments that cost nothing."""

    met: float = 0.0
    expected: int = 0
    given: int = 0
    words: dict[Word, int] = {}

    def add(self, verdicts: Sequence[ArgumentVerdict]) -> None:
        """Count the arguments of a pair."""
        for _, word, value in verdicts:
            self.words[word] = self.words.get(word, 0) + 1
            self.met += value if word in _ANSWERED else 0.0
            self.expected += word in _EXPECTED
            self.given += word in _ANSWERED or word == "invented"

    def parts(self) -> dict[str, float]:
        """Return `recall` (arguments met / expected), `precision` (met / given), and counts of unexpected ones."""
        parts: dict[str, float] = {}
        if self.expected:
            parts["recall"] = min(self.met / self.expected, 1.0)
        if self.given:
            parts["precision"] = min(self.met / self.given, 1.0)
        return {**parts, **{name: self.words[word] for word, name in _UNEXPECTED.items() if word in self.words}}


class _Ruling(Struct, frozen=True):
    scope: Scope
    # Equality of the numbers decides.
    is_plain: bool
    equals_meet: bool
    # Values that were compared already, by the numbers of both.
    alike: dict[tuple[int, int], float] = {}


class _Wanted(Struct, frozen=True):
    name: str
    identity: int
    ruling: _Ruling
    omissible: bool


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
        self._wanted: dict[int, dict[str, _Wanted]] = {}
        # The arguments of a call that cost something where they are not expected.
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
        declared = (
            value_at(terms.schemas.get(tool), ["properties"]) for tool in {slot.name for slot in self.sides.slots}
        )
        members = (one for each in declared if isinstance(each, dict) for one in each.values())
        return not any(isinstance(one, dict) and "default" in one for one in members)

    def aligned(self, *, order: Order = "any", whole: bool = False) -> Alignment:
        """Pair the calls for the greatest sum of `weigh`; with `whole`, only calls that meet in all."""
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
        again = [
            pair if pair.value == 1.0 else replace(pair, value=self.weigh(pair.expected, pair.actual) or 0.0)
            for pair in alignment.pairs
        ]
        return replace(alignment, pairs=tuple(again))

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
        for argument in self._of_slot(slot).values():
            identity = found.get(argument.name)
            if identity is None:
                counted += not argument.omissible
                continue
            counted += 1
            if identity == argument.identity and argument.ruling.equals_meet:
                met += 1.0
            elif not argument.ruling.is_plain:
                met += self._value(slot, call, argument, identity)
        if not self._terms.subset:
            charged = self._charged.get(call)
            if charged is None:
                charged = frozenset([name for name in found if self._word(call, name) == "invented"])
                self._charged[call] = charged
            counted += len(charged - wanted.keys())
        return min(met / counted, 1.0) if counted else 1.0

    def compare(self, slot: int, call: int, *, explain: bool = True) -> tuple[list[ArgumentVerdict], list[Difference]]:
        """Return the verdict on each argument of a pair, and the differences; without `explain`, of missing arguments alone."""
        sides, terms = self.sides, self._terms
        wanted, found = sides.slot_arguments[slot], sides.call_arguments[call]
        if wanted is None:
            return [], []
        tool, expected = f"{sides.slots[slot].name[:_SHOWN_LENGTH]}:", sides.slot_values(slot)
        arguments = self._of_slot(slot)
        if found is None:
            unparsable = Difference(where=f"{tool} arguments", rule="unparsable", expected=Side(value=expected))
            return [ArgumentVerdict(name, "unread") for name in arguments], [unparsable]
        verdicts: list[ArgumentVerdict] = []
        differences: list[Difference] = []
        for name in wanted:
            argument, identity = arguments.get(name), found.get(name)
            if argument is None:
                verdicts.append(ArgumentVerdict(name, "ignored"))
            elif identity is None:
                verdicts.append(ArgumentVerdict(name, "omitted" if argument.omissible else "missing"))
                if not argument.omissible:
                    rule, side = rule_name(argument.ruling.scope.rule), Side(value=expected[name])
                    differences.append(Difference(where=path(tool, name), rule=rule, expected=side))
            else:
                value = self._value(slot, call, argument, identity)
                word: Word = "met" if value == 1.0 else "partly" if value > 0.0 else "differs"
                verdicts.append(ArgumentVerdict(name, word, value))
                if value < 1.0 and explain:
                    scope, actual = argument.ruling.scope, sides.call_values(call)[name]
                    differences += compare(scope, expected[name], actual, where=path(tool, name)).differences
        for name in found:
            if name not in wanted:
                word = self._word(call, name)
                verdicts.append(ArgumentVerdict(name, word))
                if explain and word == "invented" and not terms.subset:
                    given = Side(value=sides.call_values(call)[name])
                    differences.append(Difference(where=path(tool, name), rule="invented", actual=given))
        return verdicts, differences

    def _of_slot(self, slot: int) -> dict[str, _Wanted]:
        """Return the expected arguments that are compared."""
        found = self._wanted.get(slot)
        if found is not None:
            return found
        terms, expected = self._terms, self.sides.slots[slot]
        listed = value_at(terms.schemas.get(expected.name), ["required"]) if terms.required_only else None
        required = {one for one in listed if isinstance(one, str)} if isinstance(listed, list) else None
        wanted: dict[str, _Wanted] = {}
        for name, identity in (self.sides.slot_arguments[slot] or {}).items():
            ruling = self._ruling(expected.name, name)
            if not isinstance(ruling.scope.rule, Ignore) and (required is None or name in required):
                is_spared = not ruling.is_plain and is_omissible(ruling.scope.rule, self.sides.slot_values(slot)[name])
                wanted[name] = _Wanted(name, identity, ruling, is_spared)
        self._wanted[slot] = wanted
        return wanted

    def _ruling(self, tool: str, argument: str) -> _Ruling:
        # Without rules for any of them all are compared alike.
        place = (tool, argument) if self._terms.rules.root else ("", "")
        if place not in self._rulings:
            scope = self._terms.rules.of(tool, argument, self._terms.default)
            is_plain = isinstance(scope.rule, Exact) and not scope.deeper
            self._rulings[place] = _Ruling(scope, is_plain, equals_meet=is_plain or all(map(meets_itself, scope.rules)))
        return self._rulings[place]

    def _word(self, call: int, name: str) -> Word:
        """Name the kind of an unexpected argument."""
        terms, tool = self._terms, self.sides.calls[call].name
        if terms.rules.root and isinstance(self._ruling(tool, name).scope.rule, Ignore | Lenient):
            return "ignored"
        if terms.volatile is not None and (terms.volatile.match(name) or terms.volatile.match(f"{tool}.{name}")):
            return "volatile"
        declared, given = schema_at(terms.schemas.get(tool), [name]), self.sides.call_values(call)[name]
        is_default = "default" in declared and compare(_EXACT, declared["default"], given, where="").value == 1.0
        return "default" if is_default else "invented"

    def _value(self, slot: int, call: int, argument: _Wanted, identity: int) -> float:
        """Return how well a value meets its rule; many calls share values, so that the same two are compared once."""
        ruling, key = argument.ruling, (argument.identity, identity)
        is_equal = ruling.equals_meet and argument.identity == identity
        if is_equal or ruling.is_plain:
            return float(is_equal)
        if key in ruling.alike:
            return ruling.alike[key]
        if self._is_limited and self._work_left <= 0:
            self.is_cut_short = True
            return 0.0
        expected, actual = self.sides.slot_values(slot)[argument.name], self.sides.call_values(call)[argument.name]
        quick = quick_agreement(ruling.scope, expected, actual)
        if quick is None:
            comparison = compare(ruling.scope, expected, actual, where="")
            value, work = comparison.value, comparison.work
        else:
            value, work = quick
        self._work_left -= _WORK_PER_VALUE + work
        ruling.alike[key] = value
        return value


def counts(alignment: Alignment) -> dict[str, float]:
    """Count the pairs and the leftovers."""
    return {
        "matched": len(alignment.pairs),
        "missing": len(alignment.missing),
        "unexpected": len(alignment.unexpected),
        "repeated": len(alignment.repeated),
    }


class Mismatch(Struct, frozen=True, kw_only=True):
    """An expected call and one of its tool that was made with other arguments, by their indices; `words` hold no value."""

    slot: int
    call: int
    difference: Difference
    words: str


def mismatches(comparer: ArgumentComparer, alignment: Alignment) -> tuple[Mismatch, ...]:
    """Put missing and unexpected calls of one tool together: each two are one call with other arguments, the most alike first."""
    sides = comparer.sides
    repeated = set(alignment.repeated)
    left: dict[str, list[int]] = {}
    for call in alignment.unexpected:
        if call not in repeated and sides.call_arguments[call] is not None:
            left.setdefault(sides.calls[call].name, []).append(call)
    found: list[Mismatch] = []
    for slot in alignment.missing[:_MAX_DIFFERENCES]:
        calls = [] if sides.slot_arguments[slot] is None else left.get(sides.slots[slot].name, [])
        alike = {call: value for call in calls[:_MAX_DIFFERENCES] if (value := comparer.weigh(slot, call)) is not None}
        call = max(alike, key=alike.__getitem__, default=None)
        mismatch = None if call is None else _mismatch(comparer, slot, call)
        if mismatch is not None:
            calls.remove(mismatch.call)
            found.append(mismatch)
    return tuple(found)


def _mismatch(comparer: ArgumentComparer, slot: int, call: int) -> Mismatch | None:
    """Keep the arguments alone that decide; `None` where none does."""
    verdicts, differences = comparer.compare(slot, call)
    names: dict[Word, list[str]] = {"partly": [], "differs": [], "missing": [], "invented": []}
    for verdict in verdicts:
        names.setdefault(verdict.word, []).append(verdict.name)
    both = [*names["partly"], *names["differs"]]
    # Where unexpected arguments cost nothing, they differ in nothing.
    more = names["invented"] if any(difference.rule == "invented" for difference in differences) else []
    wanted, made = comparer.sides.slot_values(slot), comparer.sides.call_values(call)
    expected: JsonObject = {name: wanted[name] for name in (*both, *names["missing"])}
    actual: JsonObject = {name: made[name] for name in (*both, *more)}
    if not expected and not actual:
        return None
    name = comparer.sides.slots[slot].name
    difference = Difference(where=name, rule=OTHER_ARGUMENTS, expected=Side(value=expected), actual=Side(value=actual))
    words = argument_words(expected, actual, lambda _name: "differs")
    return Mismatch(slot=slot, call=call, difference=difference, words=words)


def leftovers(sides: Sides, alignment: Alignment, paired: Sequence[Mismatch] = ()) -> list[str]:
    """Name the calls that have no counterpart, or one with other arguments (`paired`)."""
    if not alignment.missing and not alignment.unexpected:
        return []
    elsewhere = {*alignment.repeated, *(one.call for one in paired)}
    slots = {one.slot for one in paired}
    named = (
        ("missing", [sides.slots[slot].name for slot in alignment.missing if slot not in slots]),
        ("unexpected", [sides.calls[index].name for index in alignment.unexpected if index not in elsewhere]),
        ("repeated", [sides.calls[index].name for index in alignment.repeated]),
    )
    described = [f"{shown(one.difference.where)} ({one.words})" for one in paired]
    mismatched = [f"{rule_words(OTHER_ARGUMENTS)}: {first_names(described, _SHOWN_NAMES)}"] if described else []
    return [*mismatched, *(f"{word}: {listed(names)}" for word, names in named if names)]


def unparsable_note(sides: Sides, alignment: Alignment) -> list[str]:
    """Name the calls whose arguments should have been compared and could not be read."""
    # Where arguments are compared, a call has none if they could not be read.
    unread = [index for index, arguments in enumerate(sides.call_arguments) if arguments is None]
    compared = {call.name for call in sides.slots if call.args is not None}
    paired = {pair.actual for pair in alignment.pairs if sides.slot_arguments[pair.expected] is not None}
    seen = paired.union(alignment.unexpected)
    names = [name for index in unread if index in seen and (name := sides.calls[index].name) in compared]
    return [f"unparsable arguments: {listed(names)}"] if names else []


def pairing_notes(alignment: Alignment, comparer: ArgumentComparer | None = None) -> list[str]:
    """Note that there were too many calls, or values, to look for the best pairs."""
    notes = ["too many calls to look for the best way to pair them"] if alignment.is_greedy else []
    if comparer is not None and comparer.is_cut_short:
        notes.append("too much to compare all calls with all others: the pairs may not be the best")
    return notes


def listed(names: Sequence[str]) -> str:
    """Name the first few calls, with how often each occurs."""
    parts = [shown(name) if count == 1 else f"{shown(name)} x{count}" for name, count in Counter(names).items()]
    return first_names(parts, _SHOWN_NAMES)


class Report(Struct, frozen=True, kw_only=True):
    """`notes` hold no values; `parts` are recall and precision of arguments, counts of unexpected ones and of calls."""

    notes: tuple[str, ...]
    parts: dict[str, float]
    differences: tuple[Difference, ...]


def report(comparer: ArgumentComparer, alignment: Alignment) -> Report:
    """Look at the arguments of all pairs; arguments of missing calls count as not met."""
    sides = comparer.sides
    differences: list[Difference] = []
    figures = Figures(expected=sum(len(sides.slot_arguments[slot] or ()) for slot in alignment.missing))
    for pair in alignment.pairs:
        is_asked = pair.value < 1 and len(differences) < _MAX_DIFFERENCES
        verdicts, found = comparer.compare(pair.expected, pair.actual, explain=is_asked)
        figures.add(verdicts)
        differences += found
    paired = mismatches(comparer, alignment)
    notes = first_notes([describe(difference) for difference in differences], _DESCRIBED, "more differences")
    described = {one.slot for one in paired}
    missing = [sides.slots[slot] for slot in alignment.missing[:_MAX_DIFFERENCES] if slot not in described]
    differences += [one.difference for one in paired]
    differences += [Difference(where=one.name, rule="missing call", expected=Side(value=one.args)) for one in missing]
    return Report(
        notes=(*notes, *leftovers(sides, alignment, paired), *pairing_notes(alignment, comparer)),
        parts={**figures.parts(), **counts(alignment)},
        differences=tuple(differences[:_MAX_DIFFERENCES]),
    )


def misplaced(comparer: ArgumentComparer, alignment: Alignment) -> dict[int, int]:
    """Return the unexpected calls that are as a missing one is expected to be, with its slot: they came out of order."""
    sides = comparer.sides
    slots: dict[str, list[int]] = {}
    for slot in alignment.missing:
        slots.setdefault(sides.slots[slot].name, []).append(slot)
    moved: dict[int, int] = {}
    for call in alignment.unexpected:
        same = slots.get(sides.calls[call].name, [])
        slot = next((slot for slot in same[:_MAX_DIFFERENCES] if comparer.weigh(slot, call) == 1.0), None)
        if slot is not None:
            same.remove(slot)
            moved[call] = slot
    return moved
