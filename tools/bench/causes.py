"""How often the cause of a regression is named: streams whose scores drop with a property, beside two that change harmlessly.

    python -m tools.bench.causes [--streams 50] [--seed 0] [--only KIND]

Of each kind of cause so many streams: the share of alarms that name it first, with nothing beside it. `none` is a drop with nothing that was
recorded, `together` two properties that change in the same conversations; `through arguments` such two since which other arguments are more
frequent, which fail, in the alarm and in all of its updates. A cause comes at once, as a canary for a fifth of the
traffic, or in a rollout over 80 conversations; baselines, drops and moments differ. Harmless changes are at least 35
conversations away from it. Exit code 1 below 0.9.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from random import Random

from msgspec.structs import replace

from tests.export.scorecards import call
from tests.watch.support import SECOND, START, scorecard, watcher
from toolgauge.model.content import Recorded
from toolgauge.model.json import JsonObject
from toolgauge.model.observations import CallError, ToolDefinition
from toolgauge.model.regressions import Regression
from toolgauge.model.trajectory import Message, Trajectory

TOOL = "find_order"
# Kind of cause: the property that it is.
CAUSES = {
    "model": "gen_ai.response.model",
    "prompt": "gen_ai.system_instructions",
    "tool schema": "toolgauge.tool.schema",
    "agent version": "gen_ai.agent.version",
    "service version": "service.version",
    "error mix": "toolgauge.tool.errors",
    "argument shape": "toolgauge.tool.arguments",
    "input mix": "toolgauge.user_message.size",
}
# Two properties change; the agent writes other arguments since then, and those fail.
THROUGH_ARGUMENTS = "through arguments"
_SWITCHED = ("model", "prompt", "tool schema", "agent version", "service version")
_ERRORS = ("timeout", "invalid_arguments", "not_found")
_EVERY_S = 10
_NEAREST, _ROLLOUT, _CANARY, _LONGEST = 35, 80, 0.2, 1200


class Traffic:
    """The conversations of one stream. `causes` are kinds of `CAUSES`, none or several.

    With `through_arguments` the cause makes the agent write other arguments more often, and these fail.
    """

    def __init__(self, random: Random, causes: Sequence[str], *, through_arguments: bool = False) -> None:
        self._random, self._causes, self.through_arguments = random, causes, through_arguments
        # A mix of errors needs errors.
        self.baseline = random.choice((0.88, 0.9, 0.93, 0.95, *(() if "error mix" in causes else (0.97,))))
        self.low = self.baseline - random.uniform(0.3, 0.6)
        self.onset = random.randint(260, 420)
        # As a canary, few calls of few conversations fail: whether that is noticed is another question.
        styles = ("at once", "at once", "rollout" if through_arguments else "canary", "rollout")
        self._style = random.choice(styles)
        complete = self.onset + (_ROLLOUT if self._style == "rollout" else 0)
        # The part of the calls with other arguments.
        self._written = random.uniform(0.4, 0.9) if through_arguments else 0.0
        far = [*range(20, self.onset - _NEAREST), *range(complete + _NEAREST, complete + 80)]
        self._harmless = {
            kind: random.choice(far) for kind in random.sample([kind for kind in _SWITCHED if kind not in causes], 2)
        }

    def _is_new(self, number: int) -> bool:
        since = number - self.onset
        if since < 0 or self._style == "at once":
            return since >= 0
        return self._random.random() < (_CANARY if self._style == "canary" else since / _ROLLOUT)

    def conversation(self, number: int) -> tuple[Trajectory, float]:
        """Return a trajectory and its score."""
        random, causes = self._random, self._causes
        is_new = self._is_new(number)
        changed: set[str] = {kind for kind, at in self._harmless.items() if number >= at} | (
            {*causes} if is_new else set()
        )
        size = random.choice((40, 40, 150, 700))
        mean = self.low if is_new else self.baseline
        if self._style == "canary" and is_new:
            # A fifth of the traffic has to fall further to be noticed.
            mean = max(0.02, self.low - 0.2)
        if "input mix" in causes:
            is_long = random.random() < (0.08 if number < self.onset else 0.7)
            size, mean = (9000, self.low) if is_long else (size, self.baseline)
        if self.through_arguments:
            are_new = random.random() < (self._written if is_new else 0.03)
            changed |= {"argument shape"} if are_new else set()
            mean = 0.1 if are_new else self.baseline
        score = float(random.random() < mean)
        kind = "rate_limited" if "error mix" in changed and random.random() < 0.85 else random.choice(_ERRORS)
        arguments: JsonObject = {"order": {"id": 7}} if "argument shape" in changed else {"order_id": "7"}
        if random.random() < 0.3 and "argument shape" not in changed:
            arguments["limit"] = "3"
        error = None if score else CallError(kind=kind, message="")
        schema: JsonObject = {
            "type": "object",
            "required": ["order_id", "limit"] if "tool schema" in changed else ["order_id"],
        }
        card = scorecard(number, [(TOOL, score)], at_ns=START)
        trajectory = replace(
            card.trajectory,
            calls=(replace(call(TOOL), arguments=Recorded(arguments), error=error),),
            tools_offered=(ToolDefinition(name=TOOL, parameters=schema),),
            messages=(Message("user", "x" * size, 0),),
            resource={"service.version": "1.1" if "service version" in changed else "1.0"},
            properties={
                "gen_ai.request.model": "large",
                "gen_ai.response.model": "large-06" if "model" in changed else "large-05",
                "gen_ai.system_instructions": "91b2" if "prompt" in changed else "77c0",
                "gen_ai.agent.version": "8" if "agent version" in changed else "7",
            },
        )
        return trajectory, score


def alarm(traffic: Traffic) -> Sequence[Regression]:
    """Return the alarm of the tool after the onset, then its updates; none where it was raised before, or never."""
    watching, found = watcher(baseline_min=200), list[Regression]()
    for number in range(_LONGEST):
        trajectory, score = traffic.conversation(number)
        at_ns = START + number * _EVERY_S * SECOND
        card = replace(scorecard(number, [(TOOL, score)], at_ns=at_ns), trajectory=replace(trajectory, opened_ns=at_ns))
        for regression in watching.observe(card):
            if regression.stream.tool == TOOL:
                if number < traffic.onset or not traffic.through_arguments:
                    return [regression] if number >= traffic.onset else ()
                found.append(regression)
    return [one for one in found if one.phase != "ended"]


def named(
    kind: str, causes: Sequence[str], streams: int, seed: int, *, through_arguments: bool = False
) -> tuple[int, int, Counter[str]]:
    """Return in how many alarms and updates the causes were named first, and alone; their number; what was named instead."""
    right, alarms, others = 0, 0, Counter[str]()
    for number in range(streams):
        random = Random(f"{seed} {kind} {number}")  # noqa: S311 repeatable
        for found in alarm(Traffic(random, causes, through_arguments=through_arguments)):
            alarms += 1
            first = {change.property for change in found.causes[0].changes} if found.causes else set[str]()
            if first == {CAUSES[cause] for cause in causes}:
                right += 1
            else:
                others[" and ".join(sorted(first)) or "none"] += 1
    return right, alarms, others


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only")
    chosen = parser.parse_args()
    studies = {**{kind: (kind,) for kind in CAUSES}, "none": (), "together": ("service version", "model")}
    studies[THROUGH_ARGUMENTS] = studies["together"]
    shares: dict[str, list[int]] = {}
    for kind, causes in studies.items() if chosen.only is None else [(chosen.only, studies[chosen.only])]:
        right, alarms, others = named(
            kind, causes, chosen.streams, chosen.seed, through_arguments=kind == THROUGH_ARGUMENTS
        )
        total = shares.setdefault(kind if kind in ("none", "together", THROUGH_ARGUMENTS) else "one cause", [0, 0])
        total[0], total[1] = total[0] + right, total[1] + alarms
        print(f"{kind}: {right} of {alarms} alarms ({right / max(alarms, 1):.2f}); else {dict(others)}", flush=True)
    print({name: f"{right} of {alarms} ({right / alarms:.3f})" for name, (right, alarms) in shares.items()})
    sys.exit(0 if all(right >= 0.9 * alarms for right, alarms in shares.values()) else 1)


if __name__ == "__main__":
    main()
