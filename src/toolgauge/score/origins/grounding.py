"""Everything an agent had seen before each of its calls, indexed for looking up values.

Each text is folded and taken apart at most once, the user's first: the cost is linear in the text, however many calls there are.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from functools import lru_cache, partial
from itertools import islice
from math import inf
from operator import attrgetter, itemgetter
from typing import Literal, NamedTuple, TypeAlias

from msgspec import Struct, json

from toolgauge.model.content import Content, NotRecorded, Recorded, Unparsed
from toolgauge.model.json import Json
from toolgauge.model.left_out import EarlierValues
from toolgauge.model.outcomes import NotEvaluated, Reason
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.score.origins import value_forms
from toolgauge.score.origins.gaps import NO_USER, gap_of, holds_picture, not_found, shows_screen, without_delegated
from toolgauge.score.origins.value_forms import Day
from toolgauge.score.recorded_values import result_parts
from toolgauge.score.selection import has_taken_effect, shown

Source: TypeAlias = Literal["user", "system", "known", "result", "earlier", "schema", "derived"]

# This many searches of a text cost half of indexing it. Indexing at once costs five times as much for results of 100 KB.
_SEARCHES = 16
# Longer texts are hardly instructions, and 64 of them would take much memory.
_SHORTEST_KNOWN, _LONGEST_KNOWN = 500, 65_536
_LONGEST_DEFINITION = 16_384
_MAX_HITS, _TEXT_OF_HITS = 64, 8192
_SOFT = frozenset(b"-.,:/@+")
_COMMON_JOINTS = frozenset(b",:/@+")
_NO_JOINTS: frozenset[int] = frozenset()
_SPACES = (b"", b" ")
_WORD = frozenset(code for code in range(256) if code >= 128 or chr(code).isalnum() or code == 95)
_JOINED = _WORD | _SOFT
# Sums are looked for among the newest numbers.
_MAX_TERMS = 512
_MAX_SHARES = 32
_LARGEST_COMPUTED = 1e12
# Searches that no index makes cheap.
_MAX_COMPUTED = 500
_MAX_PHRASES = 500
_PHONE_SUFFIX = 9
_SHORTEST_SPELLED, _LONGEST_SPELLED = 5, 64
_MAX_SPELLED = 1 << 14
# Example ids in a schema are not evidence: "the reservation, such as ZFA04Y".
_EXAMPLES = re.compile(
    rb"\b(such as|e\.?g\.?|examples?|for instance|like)"
    rb"(?:[\s:,'\"`(\[\\]{1,8}(?:(?:or|and)[\s'\"`\\]{1,4})?(?=[\w#-]{0,64}[a-z])(?=[\w#-]{0,64}\d)[\w#-]{1,64}){1,10}"
)


class Texts(Struct, eq=False, gc=False):
    """Texts of one source. They are searched as they are, and indexed once that has cost as much as an index."""

    # The folded texts; append further ones.
    contents: list[bytes] = []
    _words: set[bytes] = set()
    _fresh: set[bytes] = set()
    _numbers: dict[float, None] = {}
    _days: dict[tuple[int, int], set[int | None]] = {}
    _phones: set[bytes] = set()
    # So many of the texts are indexed, how much of the others was searched, and so many are read for days, telephone numbers and languages.
    _indexed: int = 0
    _searched: int = 0
    _read: int = 0
    # Whether any text names a day by its distance, is not English, or has letters of another script: then days, number words and names
    # may be unreadable. Known after `read`.
    has_relative_day: bool = False
    is_foreign: bool = False
    has_other_script: bool = False

    def has(self, word: bytes) -> bool:
        """Return whether a word is in the texts."""
        found = self.search(word)
        return word in self.words if found is None else found

    def search(self, word: bytes) -> bool | None:
        """Return whether a word is in the texts; `None` where only an index can show it."""
        new = self.contents[self._indexed :]
        size = sum(map(len, new))
        if self._searched > _SEARCHES * size:
            return word in self.words
        if word in self._words:
            return True
        self._searched += size
        is_sure = True
        hits = iter(range(_MAX_HITS * (1 + size // _TEXT_OF_HITS)))
        for content in reversed(new):
            start = content.find(word)
            if start >= 0:
                stands = _stands_alone(word, content, _joints(word), start, hits)
                if stands:
                    return True
                is_sure = is_sure and stands is not None
        # Other letters are folded for the index only.
        return False if is_sure and all(map(bytes.isascii, new)) else None

    @property
    def words(self) -> set[bytes]:
        """All words; asking for them indexes the texts."""
        for content in self.contents[self._indexed :]:
            fresh = _words(content) - self._words
            self._words |= fresh
            self._fresh |= fresh
        self._indexed = len(self.contents)
        self._searched = 0
        return self._words

    @property
    def numbers(self) -> dict[float, None]:
        """All numbers, in the order in which they were seen."""
        if self.words and self._fresh:
            fresh, self._fresh = self._fresh, set()
            self._numbers.update(dict.fromkeys(sorted(value_forms.numbers(fresh))))
        return self._numbers

    def names_day(self, day: Day) -> bool:
        """Return whether the texts name a day; where either has no year, month and day decide."""
        self.read()
        years = self._days.get(day[1:])
        return years is not None and (day[0] is None or None in years or day[0] in years)

    def names_phone(self, digits: bytes) -> bool:
        """Return whether the texts hold a telephone number, with or without the code of its country."""
        self.read()
        return digits[-_PHONE_SUFFIX:] in self._phones

    def read(self) -> "Texts":
        """Read all texts for days, telephone numbers and languages."""
        for content in self.contents[self._read :]:
            found = _known_reading(content) if len(content) <= _LONGEST_KNOWN else _read(content)
            for year, month, day in found.days:
                self._days.setdefault((month, day), set()).add(year)
            self._phones |= found.phones
            self.has_relative_day = self.has_relative_day or found.has_relative_day
            self.is_foreign = self.is_foreign or found.is_foreign
            self.has_other_script = self.has_other_script or found.has_other_script
        self._read = len(self.contents)
        return self

    def has_phrase(self, phrase: bytes) -> bool:
        """Return whether the words of a phrase are in a text side by side."""
        return any(
            _stands_alone(phrase, content, _NO_JOINTS, content.find(phrase), range(_MAX_HITS))
            for content in self.contents
        )


class _Reading(NamedTuple):
    days: frozenset[Day]
    phones: frozenset[bytes]
    has_relative_day: bool
    is_foreign: bool
    has_other_script: bool


def _words(content: bytes) -> Set[bytes]:
    return (_known_words if _SHORTEST_KNOWN < len(content) <= _LONGEST_KNOWN else value_forms.words)(content)


def _read(content: bytes) -> _Reading:
    plain = value_forms.plain(content)
    found = map(itemgetter(0), value_forms.PHONE.finditer(plain))
    phones = frozenset(value_forms.digits_of(phone)[-_PHONE_SUFFIX:] for phone in found)
    return _Reading(
        frozenset(value_forms.days(plain)),
        phones,
        value_forms.RELATIVE_DAY.search(plain) is not None,
        value_forms.is_foreign(content),
        value_forms.has_other_script(content),
    )


# Instructions of an agent repeat in each conversation. Without this cache the evaluator takes a sixth more time.
_known_folded = lru_cache(maxsize=64)(value_forms.folded)
_known_words = lru_cache(maxsize=64)(value_forms.words)
_known_reading = lru_cache(maxsize=64)(_read)
_known_shares = lru_cache(maxsize=64)(value_forms.shares)
_known_examples = lru_cache(maxsize=256)(partial(_EXAMPLES.sub, rb"\1"))


def _joints(word: bytes) -> frozenset[int]:
    inner = _SOFT.intersection(word)
    return _SOFT if not inner else _NO_JOINTS if inner & _COMMON_JOINTS else _COMMON_JOINTS


def _stands_alone(word: bytes, content: bytes, joints: frozenset[int], start: int, hits: Iterable[int]) -> bool | None:
    """Return whether a text has a whole word, from a place where it is on; `None` after too many hits inside longer words."""
    for _ in hits:
        if start < 0:
            return False
        end = start + len(word)
        # Most words are between spaces.
        if (not start or content[start - 1] not in _JOINED) and content[end : end + 1] in _SPACES:
            return True
        before, after = content[max(0, start - 2) : start][::-1], content[end : end + 2]
        if not _goes_on(before, joints) and not _goes_on(after, joints):
            return True
        start = content.find(word, start + 1)
    return None


def _goes_on(outward: bytes, joints: frozenset[int]) -> bool:
    if not outward or outward[0] in joints:
        return False
    return outward[0] in _WORD or (outward[0] in _SOFT and len(outward) > 1 and outward[1] in _WORD)


class Seen:
    """The texts that an agent had seen before a call: `before` is called with each call, in their order."""

    def __init__(self, trajectory: Trajectory, known: Sequence[str] = ()) -> None:
        trajectory = without_delegated(trajectory)
        self.user, self.system, self._results, self.known = Texts(), Texts(), Texts(), Texts()
        self.trajectory = trajectory
        # The next to be seen come last.
        self._messages = sorted(trajectory.messages, key=attrgetter("turn"))[::-1]
        calls = [(one.turn + 1 if one.result_turn is None else one.result_turn, one) for one in trajectory.calls]
        self._calls = sorted(calls, key=itemgetter(0))[::-1]
        # Calls whose results could be known; the results are read once the user's texts do not hold a value.
        self._unread: list[ToolCall] = []
        self._prompts = {run.span: run.prompt for run in trajectory.runs if run.prompt}
        self._schemas: dict[str, Texts] = {}
        self._found: dict[bytes, Source] = {}
        self._computed = self._phrases = 0
        # Hashes of the values in earlier traces of the conversation; only ids and numbers are known.
        self.earlier = trajectory.earlier or EarlierValues()
        self._gap = gap_of(trajectory)
        # How many texts of users and of results were searched for pictures.
        self._searched = 0, 0
        for text in known:
            self.known.contents.append(value_forms.folded(text))
        if trajectory.earlier_turns is not None:
            for text in trajectory.earlier_turns.user:
                self.user.contents.append(value_forms.folded(text))
            for result in trajectory.earlier_turns.results:
                self._take_result(result)

    @property
    def results(self) -> Texts:
        """The results and errors of calls."""
        if not self._unread:
            return self._results
        unread, self._unread = self._unread, []
        for call in unread:
            reason: Reason | None = None
            why = ""
            match call.result:
                case Recorded() | Unparsed(reason="unparsable"):
                    if not self._take_result(call.result):
                        reason, why = "truncated", "was too deep to read"
                case Unparsed():
                    self._take_result(call.result)
                    reason, why = "truncated", "was cut off"
                case NotRecorded(reason="redacted"):
                    reason, why = "redacted", "was redacted"
                case NotRecorded():
                    if has_taken_effect(call):
                        reason, why = "results_not_recorded", "was not recorded"
            if reason is None and shows_screen(call):
                reason, why = "no_content", "was a picture of a screen, which is not read"
            if reason is not None and self._gap is None:
                self._gap = not_found(reason, f"the result of an earlier call of {shown(call.name)} {why}")
            if call.error is not None and call.error.message:
                self._results.contents.append(value_forms.folded(call.error.message))
        return self._results

    def sources(self) -> Iterator[tuple[Source, Texts]]:
        """Yield the texts of each source that has any."""
        # A value that the user named is the user's, and no result is read for it. System prompts are long, and seldom the source.
        if self.user.contents:
            yield "user", self.user
        if self.known.contents:
            yield "known", self.known
        if (results := self.results).contents:
            yield "result", results
        if self.system.contents:
            yield "system", self.system

    @property
    def gap(self) -> NotEvaluated | None:
        """The reason why a value not found may still have been seen; `None` where everything could be searched."""
        return self.gap_of_results or (None if any(self.user.contents) or self.earlier.has_user else NO_USER)

    @property
    def gap_of_results(self) -> NotEvaluated | None:
        """The reason why the texts so far may be incomplete, whether or not the user wrote anything."""
        contents, results = self.user.contents, self.results.contents
        users, known = self._searched
        self._searched = len(contents), len(results)
        if self._gap is None and any(map(holds_picture, contents[users:] + results[known:])):
            self._gap = not_found("no_content", "a picture or a file came before it, which is not read")
        return self._gap

    def take_all(self) -> None:
        """Add all texts of the trajectory."""
        self._take_until(inf)
        while self._prompts:
            self._take_prompt(self._prompts.popitem()[1])

    def before(self, call: ToolCall) -> None:
        """Add the texts known when this call was requested."""
        self._take_until(call.turn)
        prompt = None if call.run is None else self._prompts.pop(call.run, None)
        if prompt is not None:
            self._take_prompt(prompt)

    def _take_until(self, turn: float) -> None:
        messages, calls = self._messages, self._calls
        while messages and messages[-1].turn <= turn:
            message = messages.pop()
            if message.role == "user":
                self.user.contents.append(value_forms.folded(message.text))
            elif message.role == "system":
                folded = _known_folded if len(message.text) <= _LONGEST_KNOWN else value_forms.folded
                self.system.contents.append(folded(message.text))
        while calls and calls[-1][0] <= turn:
            self._unread.append(calls.pop()[1])

    def _take_prompt(self, prompt: str) -> None:
        if all(prompt != message.text for message in self.trajectory.messages):
            self.user.contents.append(value_forms.folded(prompt))

    def _take_result(self, result: Content) -> bool:
        """Add the readable parts of a result; return False where a part is unreadable."""
        if isinstance(result, Recorded):
            contents = [folded_json(part) for part in result_parts(result.value)]
        else:
            contents = [value_forms.folded(result.text)] if isinstance(result, Unparsed) else []
        self._results.contents += filter(None, contents)
        return None not in contents

    def schema(self, name: str) -> Texts:
        """Return the schema and the description of a tool."""
        known = self._schemas.get(name)
        if known is None:
            known = self._schemas[name] = Texts()
            offered = reversed(self.trajectory.tools_offered or ())
            tool = next((one for one in offered if one.name == name), self.trajectory.registered_tools.get(name))
            if tool is not None:
                texts = value_forms.folded(tool.description or ""), folded_json(tool.parameters) or b""
                known.contents += [
                    (_known_examples if len(text) <= _LONGEST_DEFINITION else _known_examples.__wrapped__)(text)
                    for text in texts
                ]
        return known

    def word(self, word: bytes, tool: str) -> Source | None:
        """Return where a word had been seen, the tool's own schema included."""
        if word in self._found:
            return self._found[word]
        unsure: list[tuple[Source, Texts]] = []
        for name, texts in self.sources():
            found = texts.search(word)
            if found:
                self._found[word] = name
                return name
            if found is None:
                unsure.append((name, texts))
        for name, texts in unsure:
            if word in texts.words:
                self._found[word] = name
                return name
        if self.earlier.has_word(word):
            return "earlier"
        return "schema" if self.schema(tool).has(word) else None

    def number(self, value: float, tool: str) -> Source | None:
        """Return where a number had been seen, however it was written."""
        return self._first(tool, lambda texts: value in texts.numbers)

    def is_computed(self, value: float) -> bool:
        """Return whether a number is a sum, a difference, a multiple or a named share of numbers that had been seen."""
        # Numbers of earlier traces are known by hashes, which cannot be added.
        if self.earlier.has_traces or self.user.read().is_foreign:
            return True
        self._computed += 1
        if self._computed > _MAX_COMPUTED or not abs(value) < _LARGEST_COMPUTED:
            return self._computed > _MAX_COMPUTED
        newest = (one for _, texts in self.sources() for one in islice(reversed(texts.numbers), _MAX_TERMS))
        contents = (content for _, texts in self.sources() for content in texts.contents[-_SEARCHES:])
        shares = (one for content in contents for one in _known_shares(content[:_LONGEST_KNOWN])[-_MAX_SHARES:])
        return value_forms.is_computed(value, newest, shares)

    def phrase(self, phrase: bytes) -> bool:
        """Return whether the user wrote words side by side."""
        self._phrases += 1
        return self._phrases <= _MAX_PHRASES and self.user.has_phrase(phrase)

    def spelled(self, joined: bytes) -> bool:
        """Return whether the user wrote a word with other separators: an account number in groups of four."""
        if not _SHORTEST_SPELLED <= len(joined) <= _LONGEST_SPELLED or not joined.isalnum():
            return False
        self._phrases += 1
        # The characters follow each other with at most two others between them.
        letters = rb"[ '._/-]{0,2}".join(re.escape(bytes((code,))) for code in joined)
        pattern = re.compile(rb"(?<![a-z0-9])" + letters + rb"(?![a-z0-9])")
        plain = (value_forms.plain(content[:_MAX_SPELLED]) for content in self.user.contents[-_SEARCHES:])
        return self._phrases <= _MAX_PHRASES and any(map(pattern.search, plain))

    def day(self, days: Iterable[Day], tool: str) -> Source | None:
        """Return where a day, or one right beside it, had been named."""
        for day in days:
            source = self._first(tool, lambda texts, day=day: texts.names_day(day))
            if source is not None:
                return source
            near = [*value_forms.neighbours(day)]
            if self._first(tool, lambda texts, near=near: any(map(texts.names_day, near))):
                return "derived"
        user = self.user.read()
        return "derived" if user.has_relative_day or self.earlier.has_traces or user.is_foreign else None

    def phone(self, digits: bytes, tool: str) -> Source | None:
        """Return where a telephone number had been seen."""
        return self._first(tool, lambda texts: texts.names_phone(digits)) or (
            "derived" if self.earlier.has_traces else None
        )

    def _first(self, tool: str, holds: Callable[[Texts], bool]) -> Source | None:
        for source, texts in self.sources():
            if holds(texts):
                return source
        return "schema" if holds(self.schema(tool)) else None


def folded_json(value: Json) -> bytes | None:
    """Fold a value as it is written in JSON; `None` for one that cannot be written."""
    if isinstance(value, str):
        return value_forms.folded(value)
    try:
        content = json.encode(value).lower()
    except (RecursionError, UnicodeEncodeError):
        return None
    # An escaped character would become part of the word after it.
    return content.replace(b"\\n", b"  ").replace(b"\\t", b"  ").replace(b"\\r", b"  ") if b"\\" in content else content
