"""Expected calls -> the keys of one criterion: which arguments each call expects, and the rules that all calls share.

A criterion has its rules by tool and argument, not by call. An argument that no call of a tool expects gets the rule `ignore`;
one that some calls expect and others leave free is left out of these others, and `volatile` keeps it from costing there.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from toolgauge.authoring.agreement import Agreement, RuleWord, without
from toolgauge.authoring.consensus import ExpectedSlot
from toolgauge.authoring.freedoms import Place
from toolgauge.model.json import Json, JsonObject

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
# The longest key of a rule, and the characters that are no names in `volatile`.
_MAX_KEY = 160
_WILD = frozenset("*?")
_Arguments: TypeAlias = Mapping[str, Agreement]


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftCall:
    """One expected call as it is written. `args` is `None` where any will do."""

    name: str
    args: JsonObject | None
    is_optional: bool
    why: tuple[str, ...]

    def as_json(self) -> Json:
        """Return it as it stands in a reference."""
        written: JsonObject = {"name": self.name}
        if self.args is not None:
            written["args"] = self.args
        if self.is_optional:
            written["optional"] = True
        return written


@dataclass(slots=True)
class Rules:
    """The rules that all calls of a criterion share; each with its reason where a place is left free."""

    arguments: dict[str, tuple[RuleWord | str, str]] = field(default_factory=dict[str, tuple[RuleWord | str, str]])
    volatile: dict[str, str] = field(default_factory=dict[str, str])


class Drafter:
    """Writes the expected calls of all cases of one criterion. All slots are needed first: rules are for all of them."""

    def __init__(self, cases: Sequence[Sequence[ExpectedSlot]]) -> None:
        self.rules = Rules()
        self._unspelled: set[str] = set()
        self._words: dict[tuple[str, str], RuleWord] = {}
        self._ignored: dict[tuple[str, str], set[Place]] = {}
        by_argument: dict[tuple[str, str], list[Agreement]] = {}
        for slots in cases:
            for slot in slots:
                for name, found in (slot.arguments or {}).items():
                    by_argument.setdefault((slot.name, name), []).append(found)
        for (tool, name), found in by_argument.items():
            self._decide(tool, name, found)

    def calls(self, slots: Sequence[ExpectedSlot]) -> Iterator[DraftCall]:
        """Yield the expected calls of one case."""
        for slot in slots:
            if slot.arguments is None or slot.name in self._unspelled:
                why = (
                    slot.why
                    if slot.arguments is None
                    else (*slot.why, "any arguments: their names cannot be written in a rule")
                )
                yield DraftCall(name=slot.name, args=None, is_optional=slot.is_optional, why=why)
                continue
            args, free = self._args(slot.name, slot.arguments)
            yield DraftCall(name=slot.name, args=args, is_optional=slot.is_optional, why=(*slot.why, *free))

    def _decide(self, tool: str, name: str, found: Sequence[Agreement]) -> None:
        """Find the rules for one argument of one tool, in all calls of it."""
        whys = _joined([one.why_free for one in found])
        bound = [one for one in found if one.why_free is None]
        glob = f"{tool}.{name}"
        if bound and whys and not _WILD.isdisjoint(glob):
            # A glob cannot be written as a plain name: free in one call is then free in all.
            bound = []
        word = _common([one.rule for one in bound], bound)
        places = {place for one in bound for place in one.why}
        if word == "one_of" and places:
            # Accepted values are compared as a whole: what is free within one of them would not be.
            bound, whys = [], "differs from run to run"
        if not bound:
            self._ignore(tool, (name,), whys)
            self._ignored[tool, name] = {(name,)}
            return
        if whys:
            self.rules.volatile[glob] = whys
        for place in sorted(places, key=repr):
            self._ignore(tool, place, _joined([one.why.get(place) for one in bound]))
        self._ignored[tool, name] = places
        self._words[tool, name] = word
        self._name_rules(tool, name, word, bound)

    def _name_rules(self, tool: str, name: str, word: RuleWord, bound: Sequence[Agreement]) -> None:
        if word != "exact":
            self._rule(tool, (name,), word, _REASONS[word])
        within = {place: rule for one in bound for place, rule in one.rules.items() if place != one.place}
        for place, rule in sorted(within.items(), key=repr):
            self._rule(tool, place, rule, _REASONS[rule])

    def _ignore(self, tool: str, place: Place, why: str) -> None:
        self._rule(tool, place, "ignore", why)

    def _rule(self, tool: str, place: Place, word: str, why: str) -> None:
        key = spelled(tool, place)
        if len(key) > _MAX_KEY:
            self._unspelled.add(tool)
        else:
            self.rules.arguments[key] = (word, why)

    def _args(self, tool: str, arguments: _Arguments) -> tuple[JsonObject, list[str]]:
        args: JsonObject = {}
        free: list[str] = []
        for name, found in arguments.items():
            ignored = self._ignored[tool, name]
            if (name,) in ignored:
                continue
            if found.why_free is not None:
                free.append(f"free: {name} ({found.why_free})")
                continue
            values = [without(value, (name,), ignored) for value in found.values]
            args[name] = values if self._words[tool, name] == "one_of" else values[0]
        return args, free


_REASONS: Mapping[str, str] = {
    "casefold": "the runs differ in upper and lower case",
    "datetime": "the runs write the same time in several ways",
    "lenient": "in any order",
    "one_of": "any of the values that the runs had",
}


def _joined(whys: Sequence[str | None]) -> str:
    return "; ".join(dict.fromkeys(why for why in whys if why is not None))


def _common(words: Sequence[RuleWord], bound: Sequence[Agreement]) -> RuleWord:
    """Return the rule for calls that need these rules; accepted values can stand for any of them."""
    needed = set(words) - {"exact"}
    if not needed:
        return "exact"
    if len(needed) > 1:
        return "one_of"
    (word,) = needed
    is_list_rule = word == "lenient"
    if is_list_rule and not all(isinstance(value, list) for one in bound for value in one.values):
        return "one_of"
    return word


def spelled(tool: str, place: Place) -> str:
    """Write the key of a rule: a tool, an argument, and a path below it."""
    key = _step(tool)
    for step in place:
        if step is None:
            key += "[*]"
        elif _PLAIN.fullmatch(step):
            key += f".{step}"
        else:
            key += f"[{json.dumps(step)}]"
    return key


def _step(tool: str) -> str:
    return tool if _PLAIN.fullmatch(tool) else f"[{json.dumps(tool)}]"
