"""The effects of calls: which tools act, whether a result names another effect, and whether a user may have asked for one more.

The memory over the traces of a conversation holds hashes in place of values. `Histories` are the agent runs of a trajectory
that share a history: what one of them did, the next one can know.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from functools import cached_property, lru_cache
from hashlib import blake2b
from zlib import crc32

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from toolgauge.model.json import Json, JsonObject, canonical
from toolgauge.model.left_out import UserText
from toolgauge.model.observations import CallError
from toolgauge.model.records import SpanRef
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.score.contracts import READING_VERBS, ToolKinds, name_words
from toolgauge.score.facts import Facts
from toolgauge.score.origins import value_forms
from toolgauge.score.origins.value_origin import Value, is_id, values_of
from toolgauge.score.recorded_values import is_epoch, is_passing, without_passing
from toolgauge.score.selection import readable_arguments
from toolgauge.settings import HOUR


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# A second call of one of these adds a second thing, ...
_ADDS = _words(
    "add append bid book buy charge create deploy donate email enroll insert issue launch mail make message order pay payment place"
    " post provision publish purchase refill refuel reorder reply reserve schedule send ship submit tip top topup transfer upload"
    " vote wire"
)
# ... and one of these changes a thing again. Names of settings are in neither: twice is as good as once.
_ACTS = _ADDS | _words(
    "adjust apply cancel change claim credit debit deposit dispatch exchange fund invite modify notify payout rebook redeem refund"
    " register reimburse renew replace reschedule return sell spend subscribe trade update upgrade withdraw"
)
# Nouns, too: they show an act at the beginning of a name, and behind a verb such as `process`.
_NOUNS = _words(
    "bid book change charge claim credit debit deposit email exchange fund issue mail message order place post return schedule ship"
    " tip top trade update upgrade vote"
)
_DOES = _words("complete do execute initiate perform process trigger")
# What takes an effect back.
_UNDOES = _words("cancel clear close delete drop release remove reset reverse revert rollback undo unsubscribe void")
_SETS = _words("activate disable enable grant set switch toggle turn")
_LOOKS = READING_VERBS | _words("details forecast history info price quote rate report status summary weather")
_MAX_KNOWN = 1000


@lru_cache(maxsize=_MAX_KNOWN)
def _acts(name: str) -> frozenset[str]:
    """Return the verbs in a tool's name that show an act: each call has an effect of its own. Empty for other tools."""
    words = name_words(name)
    # `add` alone is a sum.
    if not _LOOKS.isdisjoint(words) or not _SETS.isdisjoint(words[:1]) or words == ("add",):
        return frozenset()
    nouns = _NOUNS if _DOES.isdisjoint(words[:1]) else frozenset[str]()
    return frozenset(one for place, one in enumerate(words) if one in _ACTS and not (place and one in nouns))


def does_once_more(name: str, kinds: ToolKinds) -> bool:
    """Return whether each call of a tool has an effect of its own: by its contract, else by its name."""
    is_idempotent = kinds.of(name).idempotent
    return bool(_acts(name)) if is_idempotent is None else not is_idempotent


def is_act(call: ToolCall, facts: Facts, *, is_named: bool = False) -> bool:
    """Return whether an equal call would do something once more: by the contract, else the name, and MCP's hints on offer."""
    if call.name not in facts.trajectory.writing_tools or readable_arguments(call) == {}:
        return False
    is_idempotent = facts.kinds.of(call.name).idempotent
    if is_idempotent is not None:
        return not is_idempotent
    if not (is_named or _acts(call.name)):
        return False
    tools = [offer.tools.get(call.name) for offer in facts.offers.of(call)]
    return not any(tool is not None and tool.is_repeatable for tool in tools)


_IDEMPOTENCY = re.compile(r"idempoten|dedup|^(?:client_?)?(?:request_?)?(?:token|request_?id)$", re.IGNORECASE)


def has_idempotency_key(arguments: JsonObject) -> bool:
    """Return whether an argument shows the tool which calls are one."""
    return any(value and _IDEMPOTENCY.search(name) is not None for name, value in arguments.items())


_LOST = re.compile(
    r"time(?:d|s)?[ _-]?out|deadline|econnreset|epipe|etimedout|broken ?pipe|hang ?up|incomplete ?read|remote ?protocol|\b50[24]\b"
    r"|bad ?gateway|connection[ _]?(?:was |has been )?(?:reset|lost|closed|aborted|dropped|interrupted)|server ?disconnected",
    re.IGNORECASE,
)
_MAX_ERROR = 500


def was_lost(error: CallError | None) -> bool:
    """Return whether an error reads like a timeout or a lost connection: the call may have done its work all the same."""
    return error is not None and _LOST.search(f"{error.kind} {error.message[:_MAX_ERROR]}") is not None


class Effect(Struct, frozen=True, array_like=True, gc=False):
    """The effect of a call, by hashes: of its tool, the words of its arguments, and the ids and numbers of its result.

    `count` is how many words the result has, `rest` stands for those without digits; -1 where the result is not known. Without
    `has_worked`, the answer was lost. `times` counts the equal calls, `since` what users had said; `may_be_asked` once one may have asked for another.
    """

    tool: int
    end_ns: int
    words: frozenset[int]
    result: frozenset[int]
    count: int
    rest: int
    has_worked: bool = True
    times: int = 1
    since: int = 0
    may_be_asked: bool = False


_MAX_EFFECTS = 64
_MAX_TEXTS = 64
_MAX_WORDS = 256
# Shorter texts, such as "yes, please", are said again and again.
_SHORTEST_TEXT = 16
# Members of results are words with their names: `amount:20`.
_SPACES, _SPACES_IN_RESULTS = (
    bytes(code if code >= 128 or chr(code).isalnum() or code in kept else 32 for code in range(256))
    for kept in (b"_-.@/+'", b"_-.@/+':")
)
_ID_NAMES = "id ids code number reference receipt tracking sku guid"
# Words of a result that have a number, and words that may also be ids by the names of their members.
_NUMBERED = r"[^ \d]*+\d[^ ]*+"
_NAMED = rf"[^ :]*+(?:{'|'.join(f'(?<={name})' for name in _ID_NAMES.split())}):[^ ]*+"
_WITH_NUMBER, _NAMING = (
    re.compile(rf"(?<![^ ])(?:{words})".encode()) for words in (_NUMBERED, f"{_NUMBERED}|{_NAMED}")
)
_write = msgspec.json.Encoder(order="sorted").encode
_WHOLE = re.compile(rb"(?<=\d)\.0(?=[,\]}]|$)")


def _encoded(value: Json) -> bytes:
    """Write a value so that equal ones are the same text."""
    try:
        written = _write(value)
    except (RecursionError, UnicodeEncodeError):
        return repr(canonical(value)).encode("utf-8", "backslashreplace")
    return _WHOLE.sub(b"", written) if b".0" in written else written


def _split(written: bytes) -> list[bytes]:
    return _spaced(written, _SPACES).split()


def _spaced(written: bytes, spaces: bytes) -> bytes:
    if b"\\" in written:
        written = written.replace(b"\\n", b" ").replace(b"\\t", b" ").replace(b"\\r", b" ")
    return written.lower().translate(spaces, b'"')


def _hashes(found: Iterable[bytes]) -> frozenset[int]:
    return frozenset(list(map(crc32, found))[:_MAX_WORDS])


def equal_calls(name: str, arguments: JsonObject, run: str) -> str:
    """Return a digest that equal calls of a run share in every process."""
    return blake2b(f"{name} {run} ".encode(errors="replace") + _encoded(arguments), digest_size=8).hexdigest()


def effect(call: ToolCall, arguments: JsonObject, result: Json, *, has_worked: bool, times: int) -> Effect:
    """Return the effect of a call as it is remembered; `result` is `None` where it is not known."""
    found, count, rest = _digest(result)
    words = [*_split(_encoded(arguments)), *[word.encode() for word in name_words(call.name)]]
    # Without the names of their members.
    words += [word.rpartition(b":")[2] for word in found]
    tool = crc32(call.name.encode(errors="replace"))
    return Effect(tool, call.end_ns, _hashes(words), _hashes(found), count, rest, has_worked, times)


def _digest(result: Json) -> tuple[Collection[bytes], int, int]:
    if result is None:
        return (), 0, -1
    text = _spaced(_encoded(result), _SPACES_IN_RESULTS)
    words, found = text.split(), sorted({*_NAMING.findall(text)})
    plain = sorted({*words}.difference(found))
    # Too many words to remember count as not known.
    return found, len(words), crc32(b" ".join(plain)) if len(found) <= _MAX_WORDS else -1


# The last word of names whose values are new with each call; and of names of ids that have no form of their own.
_NEW_EACH_TIME = _words(
    "checksum cookie etag expires expiry hash jwt modified nonce revision rev session signature token updated version"
)
_CODES = _words("code confirmation number ref reference receipt tracking")
# Within a text: the query of an address, and a date.
_NO_NUMBER = re.compile(r"(?<=[\w/])\?[\w%=&.+~-]{1,2000}|\b\d{4}-\d\d-\d\d\b")


def names_another(before: Effect, result: Json) -> Sequence[Value] | None:
    """Return the values by which a result names another effect; `None` where it may be the same one.

    Rule: another id decides, where both results have as many words; another number, or one more, where all other words are the
    same. Values that change by themselves are left out.
    """
    found, count, rest = _digest(result)
    if before.rest < 0 or rest < 0 or (before.result, before.count, before.rest) == (_hashes(found), count, rest):
        return None
    values = [Value((), "", result)] if isinstance(result, str) else values_of(result)
    values = [value for value in values if not before.result.issuperset(_hashes(_numbers(value)))]
    ids = list(filter(_is_named_id, values))
    if ids and before.count == count:
        return ids
    return values if before.rest == rest and (values or before.count != count) else None


def _numbers(value: Value) -> list[bytes]:
    """Return the words of a value with a number or an id, without values that change by themselves."""
    content = value.content
    if _last_word(value.name) in _NEW_EACH_TIME or is_passing(value.name, content) or is_epoch(content):
        return []
    if isinstance(content, str):
        content = _NO_NUMBER.sub("", without_passing(content))
    name = value.steps[-1] if value.steps else 0
    is_member = isinstance(name, str)
    text = _spaced(_encoded({name: content} if is_member else content), _SPACES_IN_RESULTS)
    return (_NAMING if _is_named_id(value) else _WITH_NUMBER).findall(text)


def _is_named_id(value: Value) -> bool:
    return is_id(value) or _last_word(value.name) in _CODES


@lru_cache(maxsize=_MAX_KNOWN)
def _last_word(name: str) -> str:
    return next(reversed(name_words(name)), "")


# Of a text, so much is read.
_MAX_TEXT = 8000
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
# A word of letters and digits, or a long number.
_CODE = re.compile(rb"(?=[^\d]*\d)(?=\d*[a-z_])[\w-]{5,40}|\d{6,40}")
_ONCE_MORE, _ANOTHER, _SEVERAL, _ASKED, _ASKING, _WISHING, _WANTING, _RECEIVED = (
    frozenset(words.encode().split())
    for words in (
        "again twice repeat redo resend retry",
        "another additional extra more second",
        "2 3 4 5 both couple each four five several three twice two",
        f"do get give make process run try {' '.join(_ACTS)}",
        "also and can could i'd just kindly let's lets not now ok okay please pls sure then we will would yes you",
        "ahead like me need please proceed us want wish you",
        "can could like need please want",
        "arrive arrived receive received",
    )
)
_NEAR = 3
_FEW = 4


def _sentences(text: str) -> list[list[bytes]]:
    parts = _SENTENCE.split(text[:_MAX_TEXT].replace("\u2019", "'"))
    return [[word.strip(b"-.'/") for word in _split(part.encode(errors="replace"))] for part in parts]


def asks_for_another(text: str, words: Collection[int]) -> bool:
    """Return whether a user's text may ask for an effect once more, going by its words; in other languages any may.

    Rule: a sentence may ask for it that names none but other ids, and has (a) a word such as "again" where it asks for
    anything, or is short; (b) one such as "another" beside a word of the effect, where it asks or is short; (c) a verb of the
    tool where people ask ("please cancel"), or any verb there and a value of the call; (d) that something did not arrive.
    """

    def is_known(word: bytes) -> bool:
        # In the form for one or for several.
        return crc32(word) in words or crc32(word + b"s") in words or (word[-1:] == b"s" and crc32(word[:-1]) in words)

    return value_forms.is_foreign(value_forms.folded(text[:_MAX_TEXT])) or any(
        _asks(sentence, [*map(is_known, sentence)]) for sentence in _sentences(text) if sentence
    )


def _asks(sentence: Sequence[bytes], known: Sequence[bool]) -> bool:
    codes = [place for place, word in enumerate(sentence) if _CODE.fullmatch(word) is not None]
    if codes and not any(known[place] for place in codes):
        return False
    # The verbs that ask: "please send", but not "unable to send".
    asked: list[int] = []
    for place, word in enumerate(sentence):
        if word in _ASKED:
            before = sentence[place - 1] if place else b""
            is_infinitive = before == b"to" and (place == 1 or sentence[place - 2] in _WISHING)
            if not place or before in _ASKING or is_infinitive:
                asked.append(place)
    asks = asked or len(sentence) <= _FEW
    if asks and not _ONCE_MORE.isdisjoint(sentence):
        return True
    beside = [any(known[max(0, at - _NEAR) : at + _NEAR + 1]) for at, word in enumerate(sentence) if word in _ANOTHER]
    if True in beside and (asks or not _WANTING.isdisjoint(sentence)):
        return True
    has_value = any(one and not word.isalpha() for one, word in zip(known, sentence, strict=True))
    if any(known[place] for place in asked) or (asked and has_value):
        return True
    is_not = any(word in (b"never", b"not") or word.endswith(b"n't") for word in sentence)
    return is_not and any(known) and not _RECEIVED.isdisjoint(sentence)


def asks_for_several(text: str, name: str) -> bool:
    """Return whether a user's text may ask for several of what a tool adds: "two gift cards"."""
    several = {word.encode() + b"s" for word in name_words(name)}
    return not _ADDS.isdisjoint(_acts(name)) and any(
        word in _SEVERAL and not several.isdisjoint(sentence[place + 1 : place + _NEAR])
        for sentence in _sentences(text)
        for place, word in enumerate(sentence)
    )


def questions(text: str) -> str:
    """Return the sentences of a text that ask something."""
    lines = [line for line in text[-_MAX_TEXT:].split("\n") if "?" in line]
    return "\n".join([one for line in lines for one in _SENTENCE.split(line) if one[-1:] == "?"])


# Effects by the digests of equal calls, hashes of what users said, and how often they had said something.
_Remembered = tuple[dict[str, Effect], list[int], int]
_pack, _unpack = msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder(_Remembered).decode
_NAMES = _words("branch key name path slug title")
_OWNERS = _words("account card client customer employee member patient payment person user")


class Effects:
    """The newest effects of a conversation. Texts of users are looked at once a call comes again."""

    def __init__(self, remembered: bytes = b"", user_texts: Sequence[UserText] = ()) -> None:
        self._remembered = remembered
        self._text_hashes: list[int] = []
        self._heard = 0
        self.user_texts = [*user_texts]

    # Read only where a call may need it.
    @cached_property
    def _by_digest(self) -> dict[str, Effect]:
        with suppress(msgspec.DecodeError):
            effects, self._text_hashes, self._heard = _unpack(self._remembered) if self._remembered else ({}, [], 0)
            return effects
        return {}

    def find(self, digest: str) -> Effect | None:
        """Return the effect of the newest equal call."""
        if digest in self._by_digest:
            self._resolve()
        return self._by_digest.get(digest)

    def add(self, digest: str, effect: Effect) -> None:
        """Put a new effect in the place of that of the equal call before it."""
        self._by_digest.pop(digest, None)
        self._by_digest[digest] = replace(effect, since=self._heard + len(self.user_texts))

    @property
    def has_user(self) -> bool:
        """Whether users were heard."""
        return bool(self.user_texts or self._heard)

    def take_back(self, call: ToolCall, arguments: JsonObject, but: str = "") -> None:
        """Forget the effects on things that a call undoes, or changes in another way: the next equal call is new."""
        undoes = not _UNDOES.isdisjoint(name_words(call.name))
        if not self._by_digest or not (undoes or _ADDS.isdisjoint(_acts(call.name))):
            return
        values = [one for one in values_of(arguments) if is_id(one) or _last_word(one.name) in _NAMES]
        values = [one for one in values if _OWNERS.isdisjoint(name_words(one.name))]
        named = _hashes(word for one in values for word in _split(_encoded(one.content)))
        tool = crc32(call.name.encode(errors="replace"))
        for digest, one in [*self._by_digest.items()]:
            if digest != but and (undoes or one.tool == tool) and not named.isdisjoint(one.words):
                del self._by_digest[digest]

    def written(self) -> bytes:
        """Write the effects, but not `user_texts`; nothing without an effect."""
        if "_by_digest" not in self.__dict__:
            return self._remembered
        newest = dict([*self._by_digest.items()][-_MAX_EFFECTS:])
        return _pack((newest, self._text_hashes[-_MAX_TEXTS:], self._heard)) if newest else b""

    def resolved(self) -> bytes:
        """Write all that is remembered, without any text."""
        self._resolve()
        return self.written()

    def _resolve(self) -> None:
        """Mark the effects that a user may have asked for once more. A text that was written before is a replay, unless much later."""
        effects = self._by_digest
        for written in self.user_texts:
            hashed = crc32(written.text.encode(errors="replace")) if len(written.text) >= _SHORTEST_TEXT else None
            is_replay = hashed in self._text_hashes and not written.is_new
            if hashed is not None:
                self._text_hashes.append(hashed)
            for digest, one in effects.items():
                is_open = one.since <= self._heard and not one.may_be_asked
                is_meant = is_open and not (is_replay and written.time_ns < one.end_ns + HOUR)
                if is_meant and asks_for_another(f"{written.questions}\n{written.text}", one.words):
                    effects[digest] = replace(one, may_be_asked=True)
            self._heard += 1
        self.user_texts.clear()


class Histories:
    """Rule: each outermost run of a trace is a run of its own, unless it continues the history of the one before."""

    def __init__(self, trajectory: Trajectory) -> None:
        # The first of the runs that share a history with it, by run; `None` for the first outermost one of a trace, which
        # may continue an earlier trace of its conversation.
        self._first: dict[SpanRef, SpanRef | None] = {}
        self._above: dict[SpanRef, SpanRef] = {}
        newest: dict[str, SpanRef | None] = {}
        for run in trajectory.runs:
            if run.above is not None:
                self._above[run.span] = run.above
                self._first[run.span] = run.span
                continue
            trace = run.span.trace_id
            first = newest.get(trace) if run.has_history or trace not in newest else run.span
            self._first[run.span] = newest[trace] = first

    def of(self, call: ToolCall) -> SpanRef | None:
        """Return the first run that shares a history with that of the call; an inner run has one of its own."""
        return None if call.run is None else self._first.get(call.run)

    def outermost(self, call: ToolCall) -> SpanRef | None:
        """Return the first run that shares a history with the outermost run around the call."""
        run = call.run
        for _ in self._above:
            run = self._above.get(run, run) if run is not None else None
        return None if run is None else self._first.get(run)
