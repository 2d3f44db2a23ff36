"""What separates runs that people marked bad from those they marked good, each difference as a criterion to paste.

Rules are learned from the good runs. A rule counts where its criterion, made from its own text, fails on bad runs and on no good one.
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from math import comb, inf, prod
from operator import attrgetter
from typing import TypeAlias

from toolgauge.authoring.criteria_yaml import is_plain, may_be_written, yaml_key
from toolgauge.authoring.evidence import Requirements
from toolgauge.authoring.learner import figures_of
from toolgauge.authoring.tool_usage import KEY, ArgumentNode, trails_of
from toolgauge.authoring.value_profiles import MIN_SOURCES, form_of, is_declared, is_id_name, is_personal, outwards
from toolgauge.config.criteria import read_criterion
from toolgauge.config.parse import parse_yaml
from toolgauge.model.errors import ConfigError
from toolgauge.model.json import Json, JsonObject, Leaf, leaves
from toolgauge.model.outcomes import Scorecard, outcome_word
from toolgauge.model.records import VERSION
from toolgauge.model.trajectory import Trajectory
from toolgauge.report.terminal import printable
from toolgauge.score.contracts import BY_NAME, ToolKinds
from toolgauge.score.error_texts import error_in
from toolgauge.score.origins.provenance import values_and_keys
from toolgauge.score.recorded_values import written
from toolgauge.score.scorer import Scorer
from toolgauge.score.selection import CUT_SHORT, has_taken_effect, readable_arguments
from toolgauge.service.criteria_factory import make_criterion

_MAX_RUNS, _MAX_OTHERS, _MAX_FOLDS, _MAX_SHOWN, _MAX_RULES, _MAX_ALIKE = 60, 100, 20, 20, 100, 3
_MAX_TOOLS, _MAX_CALLS, _MAX_ARGUMENTS, _MAX_VALUES, _MAX_TEXT, _LONGEST = 64, 1500, 50, 1000, 20_000, 200
# A rule is chosen if the runs that break it are all bad by chance at most this often; a version is named at the lower share.
_LUCK, _CLEAR = 0.15, 0.05
# A figure is clearly above the figures of good runs if it is this times the highest, and above it by this share of their spread.
_HIGHER, _WIDER = 1.25, 0.5
_PROPERTIES = ("gen_ai.request.model", "gen_ai.response.model", "gen_ai.prompt.version", "gen_ai.agent.version")

# The keys of a schema in words.
_WORDS = {"enum": "one of", "minimum": "at least", "maximum": "at most", "pattern": "like", "type": "of type"}

# The kind of a rule and the names that it is about, as in `before`, `refund`.
_Subject: TypeAlias = tuple[str, ...]
# The features of a subject in one run, as in `find_order`, which worked before.
_Features: TypeAlias = dict[_Subject, frozenset[str]]
_BY_SCHEMA = "arguments_schema\nunknown_arguments: allow\nschemas: {{0}: {properties: {{1}: {2}}}}"
# By the kind of a rule: 0 for the simplest, how it is broken in words, and the evaluator with its parameters.
_KINDS: Mapping[str, tuple[int, str, str]] = {
    "before": (0, "`{0}` without `{1}` before it", "order_rules\nrules: [{before: {0}, call: {1}}]"),
    "after": (1, "`{0}` without `{1}` after it", "order_rules\nrules: [{after: {0}, call: {1}}]"),
    "used": (1, "`{0}` is called", "order_rules\nrules: [{never: {0}}]"),
    "unused": (1, "no call of `{0}`", "tool_call_f1\ntools: [{0}]\nexpected: [{name: {0}, repeat: [1, 1000]}]"),
    "calls": (0, "calls of `{0}`: more than {1}", "order_rules\nrules: [{at_most: {1}, call: {0}}]"),
    "failed": (1, "`{0}` fails", "tool_success\ntools: [{0}]"),
    "errors": (2, "failed calls of `{0}`: more than {1}", "budget\nper_tool: {{0}: {errors: {1}}}"),
    "length": (3, "{1}: more than {2}", "budget\n{1}: {2}"),
    "unconfirmed": (2, "`{0}` without the user's confirmation", "order_rules\nrules: [{requires_confirmation: {0}}]"),
    "from": (1, "`{1}` of `{0}` is in no earlier result of `{2}`", "data_flow\nrules: {{3}: {from: {tool: {2}}}}"),
    "with": (2, "`{0}` with `{1}`", "policy\nforbid: [{tool: {0}, arguments: {{1}: {present: true}}}]"),
    "without": (2, "`{0}` without `{1}`", "policy\nforbid: [{tool: {0}, arguments: {{1}: {present: false}}}]"),
    "value": (2, "`{1}` of `{0}` is `{2}`", "policy\nforbid: [{tool: {0}, arguments: {{1}: [{2}]}}]"),
    "argument": (3, "`{1}` of `{0}` is not {3}", _BY_SCHEMA),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Separator:
    """A difference between bad and good runs. Runs are named by their trace ids.

    `text` is a criterion in the shadow, an entry of a list: entries one below the other are a criteria file. It is empty where no
    criterion expresses the difference. The estimates count the bad and the good runs that fail rules learned without them, of all.
    """

    name: str
    sentence: str
    text: str
    found: tuple[str, ...]
    flagged: tuple[str, ...]
    estimated_found: tuple[int, int]
    estimated_flagged: tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Separation:
    """The differences of `bad` and `good` runs, the best first.

    The first `chosen` of the separators find most bad runs together: `all_together` is the criteria file of these. `already` are
    criteria in use that fail on bad runs, `differences` versions and models. `unused` counts the marked runs left out:
    marked twice, or more than are compared.
    """

    separators: tuple[Separator, ...]
    chosen: int
    all_together: Separator
    already: tuple[Separator, ...]
    differences: tuple[Separator, ...]
    bad: int
    good: int
    unused: int


@dataclass(slots=True, eq=False)
class _Run:
    """A run with its features: common to all calls of a subject, or of any call; figures; distinct values by place."""

    trajectory: Trajectory
    # The names and words of criteria in use that fail, and of versions and models.
    failing: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    properties: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    always: _Features = field(default_factory=_Features)
    ever: _Features = field(default_factory=_Features)
    figures: dict[_Subject, float] = field(default_factory=dict[_Subject, float])
    values: defaultdict[_Subject, set[int]] = field(default_factory=lambda: defaultdict[_Subject, set[int]](set))
    arguments: list[tuple[str, JsonObject]] = field(default_factory=list[tuple[str, JsonObject]])
    # By the text of a criterion, whether it fails; `None` where it had nothing to judge.
    outcomes: dict[str, bool | None] = field(default_factory=dict[str, bool | None])

    def hold(self, subject: _Subject, features: Collection[str]) -> None:
        """Note all features of a call."""
        self.always[subject] = self.always.get(subject, frozenset(features)).intersection(features)

    def meet(self, subject: _Subject, features: Collection[str]) -> None:
        """Note some features of a call."""
        self.ever[subject] = self.ever.get(subject, frozenset()).union(features)

    @property
    def source(self) -> str:
        """The conversation."""
        return self.trajectory.conversation_id or self.trajectory.trace_id

    @property
    def is_whole(self) -> bool:
        """Whether a thing that is not in the run did not happen."""
        one = self.trajectory
        return one.closed_because not in CUT_SHORT and one.incomplete is None and not one.hidden_turns


@dataclass(slots=True, eq=False, kw_only=True)
class _Rule:
    """A rule with the bad runs that break it, the bad runs that it judges, and the number of good runs that keep it."""

    key: _Subject
    rank: int
    sentence: str
    name: str
    text: str
    found: frozenset[_Run] = frozenset()
    judged: frozenset[_Run] = frozenset()
    kept: int = 0

    def luck(self, left: frozenset[_Run]) -> float:
        """Return the chance that as many runs, drawn from the judged ones, are all among the bad ones that are left."""
        bad = len(self.judged & left)
        return prod((bad - drawn) / (bad + self.kept - drawn) for drawn in range(len(self.found & left)))


def separate(
    bad: Sequence[Scorecard],
    good: Sequence[Scorecard],
    others: Sequence[Scorecard] = (),
    *,
    kinds: ToolKinds = BY_NAME,
) -> Separation:
    """Compare runs that people marked; `others` are runs without a mark. Of many runs the first ones are compared."""
    marked = of_bad, of_good = _runs(bad), _runs(good)
    fails, passes = (
        _fitting(run for key, run in runs.items() if not (key in of_bad and key in of_good)) for runs in marked
    )
    half = _MAX_RUNS // 2
    fails, passes = fails[: max(half, _MAX_RUNS - len(passes))], passes[: max(half, _MAX_RUNS - len(fails))]
    unmarked = _fitting(run for key, run in _runs(others).items() if key not in of_bad and key not in of_good)
    compared = [*fails, *passes]
    trials = _Trials(compared, unmarked[:_MAX_OTHERS], kinds)
    rules = trials.learned(fails, passes)
    chosen = _chosen(rules, fails)
    estimates: defaultdict[_Subject, list[int]] = defaultdict(lambda: [0, 0])
    folds = min(_MAX_FOLDS, max(len(fails), len(passes)))
    for fold in range(folds):
        kept = [[run for place, run in enumerate(runs) if place % folds != fold] for runs in (fails, passes)]
        learned = trials.learned(*kept)
        together = _chosen(learned, kept[0])
        for side, left in enumerate((fails[fold::folds], passes[fold::folds])):
            for rule in learned:
                estimates[rule.key][side] += len(trials.failing(rule, left))
            estimates[()][side] += len({run for rule in together for run in trials.failing(rule, left)})

    def separator(
        pair: tuple[str, str], having: Collection[_Run], text: str = "", key: _Subject | None = None
    ) -> Separator:
        found, flagged = (tuple([run.trajectory.trace_id for run in runs if run in having]) for runs in (fails, passes))
        counts = (len(found), len(flagged)) if key is None else estimates[key]
        return Separator(
            name=pair[0],
            sentence=pair[1],
            text=text,
            found=found,
            flagged=flagged,
            estimated_found=(counts[0], len(fails)),
            estimated_flagged=(counts[1], len(passes)),
        )

    # Of rules that find the same runs the first is shown.
    first = {one.found: one for one in reversed([*chosen, *rules])}
    shown = list(dict.fromkeys([*chosen, *(one for one in rules if first[one.found] is one)]))[:_MAX_SHOWN]
    union = frozenset[_Run]().union(*(one.found for one in chosen))
    in_use, differing = sorted({pair for run in fails for pair in run.failing}), _differences(fails, passes)
    return Separation(
        separators=tuple([separator((one.name, one.sentence), one.found, one.text, one.key) for one in shown]),
        chosen=len(chosen),
        all_together=separator(("learned", ""), union, "".join(one.text for one in chosen), ()),
        already=tuple([separator(pair, [run for run in compared if pair in run.failing]) for pair in in_use]),
        differences=tuple([separator(pair, [run for run in compared if pair in run.properties]) for pair in differing]),
        bad=len(fails),
        good=len(passes),
        unused=len(bad) + len(good) - len(fails) - len(passes),
    )


def _runs(scorecards: Iterable[Scorecard]) -> dict[str, _Run]:
    runs: dict[str, _Run] = {}
    for one in scorecards:
        trajectory = one.trajectory
        run = runs.setdefault(trajectory.closed_id, _Run(trajectory))
        failing = {result.criterion for result in one.results if outcome_word(result.outcome) == "fail"}
        run.failing.update((name, f"`{name}` fails") for name in failing)
        found = {
            VERSION: trajectory.resource.get(VERSION),
            **{key: trajectory.properties.get(key) for key in _PROPERTIES},
        }
        run.properties.update(
            (key, f"`{key}` is `{printable(value[:_LONGEST])}`") for key, value in found.items() if value
        )
    return runs


def _fitting(runs: Iterable[_Run]) -> list[_Run]:
    """Return the first runs that have so many calls together that they can be compared in some seconds."""
    fitting: list[_Run] = []
    left = _MAX_CALLS
    for run in runs:
        if len(run.trajectory.calls) <= left:
            left -= len(run.trajectory.calls)
            fitting.append(run)
    return fitting


def _chosen(rules: Sequence[_Rule], bad: Sequence[_Run]) -> list[_Rule]:
    """Choose few rules that find most bad runs together, each some that no other finds."""
    chosen: list[_Rule] = []
    left = frozenset(bad)
    # Rules come in their order, and of equals `max` takes the first.
    while able := [one for one in rules if one.found & left and one.luck(left) <= _LUCK]:
        chosen.append(max(able, key=lambda one: len(one.found & left)))
        left -= chosen[-1].found
    return chosen


def _differences(bad: Sequence[_Run], good: Sequence[_Run]) -> Iterator[tuple[str, str]]:
    """Yield versions and models that bad runs have more often than good ones, where that is hardly chance."""
    of_bad, of_good = (Counter(pair for run in runs for pair in run.properties) for runs in (bad, good))
    for pair, count in sorted(of_bad.items(), key=lambda one: (-one[1], one[0])):
        having = count + of_good[pair]
        ways = sum(comb(len(bad), one) * comb(len(good), having - one) for one in range(count, having + 1))
        if ways <= _CLEAR * comb(len(bad) + len(good), having):
            yield pair


class _Trials:
    """Learns rules from runs, and tries their criteria on runs."""

    def __init__(self, marked: Sequence[_Run], others: Sequence[_Run], kinds: ToolKinds) -> None:
        self._others, self._kinds = others, kinds
        self._scorers: dict[str, Scorer | None] = {}
        self._keys: dict[str, _Subject] = {}
        self._definitions: dict[str, str] = {}
        # The conversations that have a name, or a label at a place.
        self._sources: defaultdict[_Subject, set[str]] = defaultdict(set)
        called = Counter(name for run in marked for name in {call.name for call in run.trajectory.calls})
        for run in (*marked, *others):
            for tool in run.trajectory.tools_offered or ():
                if tool.name in called and tool.name not in self._definitions:
                    words = map(written, values_and_keys([tool.description, tool.parameters]))
                    self._definitions[tool.name] = " ".join(words)[:_MAX_TEXT]
        offered = self._definitions.keys()
        known = [
            one for one in called.most_common() if may_be_written(one[0], is_offered=one[0] in offered, runs=one[1])
        ]
        self._tools = frozenset([name for name, _ in known if is_plain(name)][:_MAX_TOOLS])
        for run in (*marked, *others):
            for call in run.trajectory.calls:
                for path, leaf in _places(readable_arguments(call) or {}) if call.name in self._tools else ():
                    self._sources[call.name, path].add(run.source)
                    if isinstance(leaf, str) and form_of(leaf) == "label":
                        self._sources[call.name, path, leaf].add(run.source)
        for run in marked:
            self._note_calls(run)
            self._note_origins(run)
        services = {run.trajectory.service or "" for run in marked}
        service = services.pop() if len(services) == 1 else ""
        # The same lines for all criteria.
        self._common = [f"when: {{service: {yaml_key(service)}}}"] if is_plain(service) else []
        self._common += ["scope: conversation"] if any(run.trajectory.scope == "conversation" for run in marked) else []

    def _is_public(self, tool: str, *names: str) -> bool:
        """Return whether a path or a label may be written: many conversations have it, or the definition spells it."""
        definition = self._definitions.get(tool, "")
        are_declared = all(is_declared(word, definition) for word in re.findall(r"[\w-]+", " ".join(names)))
        return are_declared or len(self._sources[tool, *names]) >= MIN_SOURCES

    def _label(self, tool: str, argument: str, value: Json) -> Collection[str]:
        """Write a truth value or a public label."""
        if isinstance(value, bool):
            return (json.dumps(value),)
        if not isinstance(value, str) or form_of(value) != "label" or is_personal(argument) or is_id_name(argument):
            return ()
        return (value,) if self._is_public(tool, argument, value) else ()

    def _note_calls(self, run: _Run) -> None:
        """Note the order of tools, names and labels of arguments, failures, repeats and figures."""
        calls = [call for call in run.trajectory.calls if call.name in self._tools]
        called, began, ended = dict[str, int](), dict[str, int](), dict[str, int]()
        for call in calls:
            called.setdefault(call.name, call.turn)
            if has_taken_effect(call):
                began.setdefault(call.name, call.turn)
                ended[call.name] = call.turn
            if call.has_failed or error_in(call) is not None:
                run.meet(("failed",), {call.name})
            arguments = readable_arguments(call)
            if arguments is None or len(list(islice(leaves(arguments), _MAX_VALUES))) == _MAX_VALUES:
                continue
            if not call.has_failed and len(run.arguments) < _MAX_ARGUMENTS:
                run.arguments.append((call.name, arguments))
            given = {name for name in arguments if KEY.fullmatch(name) and self._is_public(call.name, name)}
            run.hold(("without", call.name), given)
            run.meet(("with", call.name), given)
            for name in given:
                run.meet(("value", call.name, name), self._label(call.name, name, arguments[name]))
        run.hold(("unused",), called)
        run.meet(("used",), called)
        for name, turn in called.items():
            run.hold(("before", name), {other for other in began if began[other] < turn and other != name})
            of_tool = [call.has_failed for call in calls if call.name == name]
            run.figures["calls", name], run.figures["errors", name] = len(of_tool), sum(of_tool)
        for name, turn in ended.items():
            run.hold(("after", name), {other for other in ended if ended[other] > turn})
        run.figures |= {("length", "", name): figure for name, figure in figures_of(run.trajectory)}

    def _note_origins(self, run: _Run) -> None:
        """Note for each place in arguments the tools with earlier results that held all values there."""
        given = [
            (call, path, leaf)
            for call in run.trajectory.calls
            for path, leaf in (_places(readable_arguments(call) or {}) if call.name in self._tools else ())
            if leaf is not None and not isinstance(leaf, bool) and self._is_public(call.name, path)
        ]
        trails = trails_of(run.trajectory, [leaf for _, _, leaf in given], or_arguments=False)
        for call, path, leaf in given:
            subject = ("from", call.name, path)
            run.hold(
                subject, {tool for tool in self._tools & trails.keys() if not trails[tool].strangers(call, [leaf])}
            )
            run.values[subject].add(hash(leaf))

    def failing(self, rule: _Rule, runs: Iterable[_Run]) -> list[_Run]:
        """Return the runs that break a rule."""
        return [run for run in runs if self._outcome(rule, run)]

    def _outcome(self, rule: _Rule, run: _Run) -> bool | None:
        if rule.text not in run.outcomes:
            if rule.text not in self._scorers:
                try:
                    node = parse_yaml(rule.text, rule.name, {}).items()[0]
                    self._scorers[rule.text] = Scorer([make_criterion(read_criterion(node))], self._kinds)
                except ConfigError:
                    # Limits and schemas can be larger than a criterion may be.
                    self._scorers[rule.text] = None
            scorer = self._scorers[rule.text]
            words = {outcome_word(one.outcome) for one in (scorer.score(run.trajectory) if scorer else ())}
            run.outcomes[rule.text] = True if "fail" in words else False if "pass" in words else None
        return run.outcomes[rule.text]

    def learned(self, bad: Sequence[_Run], good: Sequence[_Run]) -> list[_Rule]:
        """Return the rules that some bad runs break and no good one, the best first."""
        rules: list[_Rule] = []
        for rule in (*islice(self._by_features(bad, good), _MAX_RULES), *islice(self._by_calls(bad, good), _MAX_RULES)):
            rule.found = frozenset(self.failing(rule, bad))
            if rule.found and not any(self._outcome(rule, run) for run in good):
                rule.judged = frozenset(run for run in bad if self._outcome(rule, run) is not None)
                # A run without any call of the tool shows nothing, unless the rule is that it is not called.
                kind, tool, *_ = rule.key
                kept = [run for run in good if self._outcome(rule, run) is False]
                rule.kept = sum(kind == "used" or not tool or ("before", tool) in run.always for run in kept)
                # Unmarked runs break a rule about as often as marked ones, or less often.
                expected = len(self._others) * (len(rule.found) + 1) / (len(bad) + len(good) + 1)
                if rule.kept and len(self.failing(rule, self._others)) <= expected + 2 * expected**0.5:
                    rules.append(rule)
        # Rules that may be chosen, then rules that find more, are surer and simpler.
        bads = frozenset(bad)
        return sorted(
            rules, key=lambda one: (one.luck(bads) > _LUCK, -len(one.found), one.luck(bads), one.rank, one.key)
        )

    def _rule(self, key: _Subject, *more: str) -> _Rule:
        """Write a rule as a criterion with a name of its own; `more` are limits and schemas."""
        kind, tool, *names = key
        rank, sentence, template = _KINDS[kind]
        if kind == "from":
            more = (yaml_key(f"{json.dumps([tool]) if '.' in tool else tool}.{names[0]}"),)
        slugs = [re.sub("[^a-z0-9_]+", "-", part.lower()).strip("-")[:20] for part in (tool or "run", kind, *names)]
        name = full = ".".join(("learned", *slugs))[:56]
        while self._keys.setdefault(name, key) != key:
            name = f"{full}-{len(self._keys)}"
        for place, word in enumerate((tool, *names, *more)):
            is_written = place > len(names) or word in ("true", "false")
            sentence = sentence.replace(f"{{{place}}}", word)
            template = template.replace(f"{{{place}}}", word if is_written else yaml_key(word))
        lines = (f"- name: {name}", "enforce: shadow", *self._common, *f"evaluator: {template}".split("\n"))
        # Of equals, rules about tools that change state come first.
        rank = 2 * rank + (not self._kinds.writes(tool))
        return _Rule(key=key, rank=rank, sentence=sentence, name=name, text="\n  ".join(lines) + "\n")

    def _by_features(self, bad: Sequence[_Run], good: Sequence[_Run]) -> Iterator[_Rule]:
        """Yield rules that good runs keep by their features, first rules that most bad ones break."""
        found: list[tuple[int, _Rule]] = []
        for subject in dict.fromkeys(subject for run in bad for subject in run.always):
            kept = [run for run in good if subject in run.always and run.is_whole]
            # A single value is in some result by chance.
            distinct = set[int]().union(*(run.values[subject] for run in kept))
            if kept and (subject[0] != "from" or len(distinct) >= min(MIN_SOURCES, max(2, len(kept)))):
                usual = kept[0].always[subject].intersection(*(run.always[subject] for run in kept))
                broken = Counter(one for run in bad for one in usual - run.always.get(subject, usual))
                found += [(runs, self._rule((*subject, one))) for one, runs in broken.most_common(_MAX_ALIKE)]
        for subject in dict.fromkeys(subject for run in bad for subject in run.ever):
            usual = frozenset[str]().union(*(run.ever.get(subject, ()) for run in good))
            broken = Counter(one for run in bad for one in run.ever.get(subject, usual) - usual)
            found += [(runs, self._rule((*subject, one))) for one, runs in broken.most_common(_MAX_ALIKE)]
        for subject in dict.fromkeys(subject for run in bad for subject in run.figures):
            of_good = [run.figures[subject] for run in good if subject in run.figures]
            most, least = max(of_good, default=inf), min(of_good, default=0)
            clear = max(_HIGHER * most, most + _WIDER * (most - least))
            if above := [figure for run in bad if (figure := run.figures.get(subject, 0)) > clear]:
                limit = (most + min(above)) / 2
                written_limit = f"{outwards(limit, up=True):g}s" if subject[-1] == "duration" else f"{int(limit)}"
                found.append((len(above), self._rule(subject, written_limit)))
        yield from (rule for _, rule in sorted(found, key=lambda one: (-one[0], one[1].rank, one[1].key)))

    def _by_calls(self, bad: Sequence[_Run], good: Sequence[_Run]) -> Iterator[_Rule]:
        """Yield rules that no feature shows to be broken: the user's confirmation, and the schemas of arguments."""
        nodes, requirements = defaultdict[str, ArgumentNode](ArgumentNode), Requirements(runs=MIN_SOURCES)
        for number, run in enumerate(good):
            for tool, arguments in run.arguments:
                nodes[tool].add(arguments, run=number, source=run.source)
        for tool in sorted({subject[1] for run in bad for subject in run.always if subject[0] == "before"}):
            if self._kinds.writes(tool):
                yield self._rule(("unconfirmed", tool))
            schemas = nodes[tool].of_members(requirements, self._definitions.get(tool, "")).get("properties")
            for argument, schema in schemas.items() if isinstance(schemas, Mapping) else ():
                text = json.dumps(schema, default=attrgetter("value"))
                limits: JsonObject = json.loads(text)
                words = ", ".join(f"{_WORDS[key]} {json.dumps(limits[key])}" for key in _WORDS if key in limits)
                yield self._rule(("argument", tool, argument), text, words)


def _places(value: Json) -> Iterator[tuple[str, Leaf]]:
    """Yield single values with their paths, as far as these have usual names."""
    stack, left = [("", value)], _MAX_VALUES
    while stack and left:
        path, node = stack.pop()
        left -= 1
        if isinstance(node, dict) and len(path) < _LONGEST:
            members = islice(node.items(), _MAX_VALUES)
            stack += [(f"{path}.{key}" if path else key, one) for key, one in members if KEY.fullmatch(key)]
        elif isinstance(node, list) and len(path) < _LONGEST:
            stack += [(f"{path}[*]", one) for one in node[:_MAX_VALUES]]
        elif not isinstance(node, dict | list):
            yield path, node
