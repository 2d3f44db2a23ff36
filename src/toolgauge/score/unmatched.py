"""Finds criteria that judge nothing: no trajectory matches, or no called tool is one that they name.

The configuration accepts a typing error in a glob, and a criterion without results looks like one without
failures. Each is looked for until it matches, then not again before the next hour, so that what works costs nothing.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import TypeAlias

from msgspec import Struct

from toolgauge.model.json import JsonObject
from toolgauge.model.ports import needs_of
from toolgauge.model.trajectory import Trajectory
from toolgauge.score.criterion import Criterion, Inline, Registered, When, applies, narrowed_to_agent, register
from toolgauge.score.patterns import Globs, Place, read_place, values_at
from toolgauge.score.rules import ArgumentRules, Ignore, Lenient, compiled
from toolgauge.score.selection import CallSelection, NamesTools
from toolgauge.settings import HOUR


class Unmatched(Struct, frozen=True):
    """A criterion that matched nothing, the `excluding` conditions, and whether there were trajectories for it."""

    criterion: Criterion
    has_trajectories: bool
    excluding: tuple[str, ...] = ()

    @property
    def description(self) -> str:
        """The end of a sentence about the criterion: the calls or trajectories that it did not find."""
        return f"found no call of its {self._naming}" if self.has_trajectories else "matched no trajectory"

    @property
    def keys(self) -> str:
        """The keys of the criterion that decide it."""
        if self.has_trajectories:
            return self._naming
        return " and ".join(self.excluding) or "`when`, whose conditions hold for some each, but never together"

    @property
    def _naming(self) -> str:
        return f"`{needs_of(self.criterion.evaluator).tools_in}`"


# Called once for each criterion that matches nothing for an hour in which trajectories were scored.
OnUnmatched: TypeAlias = Callable[[Unmatched], None]


class UnmatchedCriteria:
    """Looks for the criteria that people wrote: the default ones are for everything, and may find nothing."""

    def __init__(self, registered: Sequence[Registered], on_unmatched: OnUnmatched | None = None) -> None:
        """Without `on_unmatched` the period never ends."""
        self._written = {one.criterion.name: one for one in registered if not one.criterion.is_default}
        self._conditions = {name: dict(_conditions(one)) for name, one in self._written.items()}
        self._on_unmatched = on_unmatched
        self._reported: set[str] = set()
        self._ends_ns: int | None = None
        self._begin()
        # Whether each matched nothing, by labels. Replaced and never changed: other threads look at it.
        self.states: Mapping[tuple[str, ...], float] = {(name,): 0.0 for name in self._written}

    def _begin(self) -> None:
        self._waiting = dict(self._written)
        self._with_trajectories: set[str] = set()
        # By criterion: its conditions that held for no trajectory.
        self._excluding = {name: set(conditions) for name, conditions in self._conditions.items()}
        self._is_empty = True

    def see(self, trajectory: Trajectory) -> None:
        """Take note of the criteria that match a trajectory."""
        self._is_empty = False
        if not self._waiting:
            return
        for name, registered in [*self._waiting.items()]:
            conditions = self._conditions[name]
            self._excluding[name] -= {key for key in self._excluding[name] if applies(conditions[key], trajectory)}
            if applies(registered, trajectory):
                self._with_trajectories.add(name)
                evaluator = registered.criterion.evaluator
                seen = narrowed_to_agent(registered, trajectory)
                if not isinstance(evaluator, NamesTools) or evaluator.names_call(seen):
                    del self._waiting[name]
                    if self.states[name,]:
                        self.states = {**self.states, (name,): 0.0}

    def so_far(self) -> tuple[Unmatched, ...]:
        """Return the criteria that matched nothing in this period."""
        waiting, seen, of = self._waiting, self._with_trajectories, self._excluding
        excluding = {name: tuple(key for key in self._conditions[name] if key in of[name]) for name in waiting}
        return tuple(Unmatched(one.criterion, name in seen, excluding[name]) for name, one in waiting.items())

    def end_period_if_due(self, now_ns: int) -> None:
        """Report what matched nothing for an hour, and begin the next."""
        if self._ends_ns is None:
            self._ends_ns = now_ns + HOUR
        if now_ns < self._ends_ns or self._on_unmatched is None:
            return
        self._ends_ns = now_ns + HOUR
        # An hour without any trajectory says nothing about criteria.
        if self._is_empty:
            return
        for unmatched in self.so_far():
            name = unmatched.criterion.name
            self.states = {**self.states, (name,): 1.0}
            if name not in self._reported:
                self._reported.add(name)
                self._on_unmatched(unmatched)
        self._begin()


def _conditions(registered: Registered) -> Iterator[tuple[str, Registered]]:
    """Yield each condition of `when` as it is written, with a criterion that has no other; `scope` for a criterion without conditions."""
    criterion, when = registered.criterion, registered.criterion.when
    globs = (("service", when.service), ("agent", when.agent), ("case", when.case))
    single = [(f"`when.{key}: {glob}`", replace(When(), **{key: glob})) for key, glob in globs if glob is not None]
    single += [(f"`when.attributes.{key}: {one}`", When(attributes={key: one})) for key, one in when.attributes.items()]
    for text, alone in single or [(f"`scope: {criterion.scope}`", When())]:
        yield text, register(replace(criterion, when=alone))


def without_effect(criteria: Sequence[Criterion]) -> Iterator[str]:
    """Yield warnings about parts of criteria that no expected call meets; calls in reference files are not looked at."""
    for criterion in criteria:
        evaluator, reference = criterion.evaluator, criterion.reference
        calls = reference.expected.calls if isinstance(reference, Inline) else ()
        if not calls:
            continue
        tools = evaluator.tools if isinstance(evaluator, CallSelection) else None
        if isinstance(tools, tuple) and not any(map(Globs(tools).match, [call.name for call in calls])):
            yield f"criterion `{criterion.name}` expects nothing: its `tools` match none of its expected calls"
        rules: object = getattr(evaluator, "arguments", None)
        for key, rule in rules.root.items() if isinstance(rules, ArgumentRules) else ():
            place = read_place(key)
            named = [call.args or {} for call in calls if place.tool.leads_to(call.name)]
            # These two count for arguments that nobody expects, too, unless the name is nearly that of an expected one.
            is_optional = named and isinstance(compiled(rule), Ignore | Lenient) and not _is_misspelled(place, named)
            if not is_optional and not any(values_at(arguments, place.steps) for arguments in named):
                yield f"criterion `{criterion.name}` has a rule for `{key}`, which no expected call of it has"


def _is_misspelled(place: Place, expected: Sequence[JsonObject]) -> bool:
    """Return whether a step of a place is missing in expected arguments that have a similar name there."""
    for depth, step in enumerate(place.steps):
        parents = (value for arguments in expected for value in values_at(arguments, place.steps[:depth]))
        names = {name for parent in parents if isinstance(parent, dict) for name in parent}
        if step.key is not None and step.key not in names and get_close_matches(step.key, names, n=1, cutoff=0.8):
            return True
    return False
