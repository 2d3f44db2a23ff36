"""The effects of calls: which tools act, what a result says was done, and whether a user may have asked for it once more.

Effects are remembered over the traces of a conversation, so they hold hashes in place of values. All patterns are linear.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from zlib import crc32

import msgspec
from msgspec import Struct

from toolgauge.model.content import Content, NotRecorded, Recorded, Unparsed
from toolgauge.model.json import JsonObject
from toolgauge.model.observations import CallError
from toolgauge.model.trajectory import ToolCall
from toolgauge.score.criterion import READING_VERBS, name_words
from toolgauge.score.equality import canonical
from toolgauge.score.facts import Facts
from toolgauge.score.origins import value_forms
from toolgauge.score.origins.value_origin import Value, is_id, values_of
from toolgauge.score.recorded_values import is_passing, result_value, without_passing
from toolgauge.score.selection import readable_arguments


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# A second call of one of these adds a second thing, ...
_ADDS = _words(
    "add append bid book buy charge create deploy donate email enroll insert issue launch mail make message order pay payment place"
    " post provision publish purchase refill refuel reorder reply reserve schedule send ship submit tip top topup transfer upload"
    " vote wire"
)
# ... and one of these changes a thing again. Names of settings are in neither: twice is as good as once.
_CHANGES = _words(
    "adjust apply cancel change claim credit debit deposit dispatch exchange fund invite modify notify payout rebook redeem refund"
    " register reimburse renew replace reschedule return sell spend subscribe trade update upgrade withdraw"
)
_ACTS = _ADDS | _CHANGES
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
def act_words(name: str) -> frozenset[str]:
    """Return the verbs in a tool's name that show an act: each call has an effect of its own. Empty for other tools."""
    words = name_words(name)
    # `add` alone is a sum.
    if not _LOOKS.isdisjoint(words) or not _SETS.isdisjoint(words[:1]) or words == ("add",):
        return frozenset()
    may_be_noun = _DOES.isdisjoint(words[:1])
    return frozenset(
        one for place, one in enumerate(words) if one in _ACTS and not (place and may_be_noun and one in _NOUNS)
    )


def is_act(call: ToolCall, facts: Facts, *, is_named: bool = False) -> bool:
    """Return whether another equal call would do something once more: by the tool's kind, its name, and MCP's hints on offer."""
    if call.name not in facts.trajectory.writing_tools or readable_arguments(call) == {}:
        return False
    if not is_named and not act_words(call.name):
        return False
    return not any((tool := offer.tools.get(call.name)) and tool.is_repeatable for offer in facts.offers.of(call))


def undoes(name: str) -> bool:
    """Return whether the name of a tool shows that it takes an effect back."""
    return not _UNDOES.isdisjoint(name_words(name))


def adds(name: str) -> bool:
    """Return whether the name of a tool shows that each call adds something."""
    return not _ADDS.isdisjoint(act_words(name))


class Effect(Struct, frozen=True, array_like=True, gc=False):
    """What a call did: the hash of its tool and arguments, of what its result says, and of the words that name it.

    `ids` are those of its result, and `places` where they stand; `counted` stands for all numbers. Without `has_worked`, an answer
    was lost on the way. `times` counts the equal calls so far; `may_be_asked` once a user may have asked for another.
    """

    key: bytes
    tool: int
    end_ns: int
    ids: tuple[int, ...]
    places: int
    counted: int
    rest: int
    words: frozenset[int]
    has_worked: bool = True
    times: int = 1
    may_be_asked: bool = False

    @property
    def is_unknown(self) -> bool:
        """Whether the result was not recorded."""
        return self.rest < 0


class Effects(Struct, frozen=True, array_like=True, gc=False):
    """The newest effects of a conversation, and hashes of the texts of its users."""

    effects: tuple[Effect, ...] = ()
    said: tuple[int, ...] = ()


MAX_EFFECTS = 64
_MAX_SAID = 64
# Shorter texts, such as "yes, please", are said again and again.
_SHORTEST_SAID = 16
_encode, _decode = msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder(Effects).decode


def written(effects: Collection[Effect], said: Collection[int]) -> bytes:
    """Write what is remembered of a conversation; users' texts matter only beside an effect."""
    newest, texts = tuple(effects)[-MAX_EFFECTS:], tuple(said)[-_MAX_SAID:]
    return _encode(Effects(newest, texts)) if newest else b""


def read(remembered: bytes) -> Effects:
    """Read what is remembered; nothing where it is damaged."""
    try:
        return _decode(remembered) if remembered else Effects()
    except msgspec.DecodeError:
        return Effects()


def text_hash(text: str) -> int | None:
    """Return a hash of a user's text; `None` for one that says little."""
    return _hash(text) if len(text) >= _SHORTEST_SAID else None


def key(name: str, arguments: JsonObject, run: str) -> bytes:
    """Return a digest that equal calls of a run share in every process."""
    tokens = [float(one) if type(one) is int else one for one in canonical(arguments)]
    return blake2b(repr((name, run, tokens)).encode("utf-8", "surrogatepass"), digest_size=8).digest()


def tool_hash(name: str) -> int:
    """Return a hash of the name of a tool."""
    return _hash(name)


_IDEMPOTENCY = re.compile(r"idempoten|dedup|^(?:client_?)?(?:request_?)?(?:token|request_?id)$", re.IGNORECASE)


def has_idempotency_key(arguments: JsonObject) -> bool:
    """Return whether an argument tells the tool which calls are one."""
    return any(value and _IDEMPOTENCY.search(name) is not None for name, value in arguments.items())


_LOST = re.compile(
    r"time(?:d|s)?[ _-]?out|deadline|econnreset|epipe|etimedout|broken ?pipe|hang ?up|incomplete ?read|remote ?protocol|\b50[24]\b"
    r"|bad ?gateway|connection[ _]?(?:was |has been )?(?:reset|lost|closed|aborted|dropped|interrupted)"
    r"|(?:lost|disconnected)\b.{0,20}\b(?:connection|server)|server ?disconnected",
    re.IGNORECASE,
)
_MAX_ERROR = 500


def was_lost(error: CallError | None) -> bool:
    """Return whether an error reads like a timeout or a lost connection: the call may have done its work all the same."""
    return error is not None and _LOST.search(f"{error.kind} {error.message[:_MAX_ERROR]}") is not None


_MAX_LEAVES = 200
# The last word of names whose values are new with each call, whatever was done; and of names of what is no id by its form.
_NEW_EACH_TIME = _words(
    "checksum cookie etag expires expiry hash jwt modified nonce revision rev session signature token updated version"
)
_CODES = _words("code confirmation number ref reference receipt tracking")
_DIGIT = re.compile(r"\d")
_NUMBER = re.compile(r"[-+]?\d[\d,]{0,20}(?:\.\d{1,10})?")
# Within a text: an id or a number, and what is neither: the query of an address, a date.
_FIGURE = re.compile(r"(?<![\w-])#?(?:[A-Za-z_]{1,20}[-_]?)?\d[\w.,-]{0,60}")
_NO_FIGURE = re.compile(r"(?<=[\w/])\?[\w%=&.+~-]{1,2000}|\b\d{4}-\d\d-\d\d\b")


class Report(Struct, frozen=True, gc=False):
    """What a result says: ids and numbers by a hash of their place and content, and hashes of all it says."""

    ids: Mapping[int, Value]
    figures: Mapping[int, Value]
    places: int
    counted: int
    rest: int


def report(result: Content) -> Report | None:
    """Read a result; `None` where it was not recorded, or cut off."""
    if isinstance(result, NotRecorded) or (isinstance(result, Unparsed) and result.reason == "truncated"):
        return None
    ids: dict[int, Value] = {}
    figures: dict[int, Value] = {}
    # A list has as many members as it has numbers: one more payment counts.
    counted: list[int] = []
    places: set[str] = set()
    rest: set[int] = set()
    value = result_value(result.value) if isinstance(result, Recorded) else result.text
    for one in [Value((), "", value)] if isinstance(value, str) else values_of(value)[:_MAX_LEAVES]:
        content, where = one.content, ".".join([step for step in one.steps if type(step) is str])
        last = _last_word(one.name)
        if last in _NEW_EACH_TIME or is_passing(one.name, content):
            continue
        is_text = isinstance(content, str)
        if is_id(one) or (is_text and last in _CODES):
            ids.setdefault(_hash(f"{where} {content}"), one)
            places.add(where)
        elif not is_text or _NUMBER.fullmatch(content) is not None:
            counted.append(_hash(f"{where} {_plain(str(content))}"))
            figures.setdefault(counted[-1], one)
        elif _DIGIT.search(content) is None:
            rest.add(_hash(f"{where} {content}"))
        else:
            text = _NO_FIGURE.sub("", without_passing(content))
            for figure in _FIGURE.findall(text):
                counted.append(_hash(f"{where} {figure}"))
                figures.setdefault(counted[-1], one)
            rest.add(_hash(f"{where} {_FIGURE.sub('#', text)}"))
    return Report(ids, figures, _hash(repr(sorted(places))), _hash(repr(sorted(counted))), _hash(repr(sorted(rest))))


@lru_cache(maxsize=_MAX_KNOWN)
def _last_word(name: str) -> str:
    return next(reversed(name_words(name)), "")


def _hash(text: str) -> int:
    return crc32(text.encode("utf-8", "surrogatepass"))


def effect(
    call: ToolCall, key: bytes, arguments: JsonObject, result: Report | None, *, has_worked: bool, times: int
) -> Effect:
    """Return what is kept of a call."""
    words, ids = words_of(call.name, arguments, result), () if result is None else tuple(sorted(result.ids))
    hashes = (-1, -1, -1) if result is None else (result.places, result.counted, result.rest)
    return Effect(key, tool_hash(call.name), call.end_ns, ids, *hashes, words, has_worked, times)


def names_another(before: Effect, now: Report, earlier: Report | None) -> Sequence[tuple[Value, Value | None]] | None:
    """Return the ids or numbers that a result names in place of those before, which are known by the result of `earlier`.

    Rule: other ids at the same places decide; other numbers do where all else is the same. `None` for any other result.
    """
    ids = tuple(sorted(now.ids))
    if before.is_unknown or (before.places != now.places and before.ids != ids):
        return None
    if before.ids != ids:
        found, old = [value for hashed, value in now.ids.items() if hashed not in before.ids], earlier and earlier.ids
        known: Mapping[int, Value] = now.ids
    elif before.rest == now.rest and before.counted != now.counted:
        known, old = now.figures, earlier and earlier.figures
        found = [] if old is None else [value for hashed, value in known.items() if hashed not in old]
    else:
        return None
    gone = [value for hashed, value in (old or {}).items() if hashed not in known]
    return [(value, next((one for one in gone if one.steps == value.steps), None)) for value in found]


# Of a text, so much is read.
_MAX_TEXT = 8000
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_TOKEN = re.compile(r"\w+(?:[.@:/+'-]\w+)*")
_MAX_WORDS = 64
# A number of letters and digits, or a long number.
_CODE = re.compile(r"(?=\w*[a-z_])(?=\w*\d)[\w-]{5,40}|\d{6,40}")
_ONCE_MORE = _words("again twice repeat redo resend retry")
_ANOTHER = _words("another additional extra more second")
_SEVERAL = _words("2 3 4 5 both couple each four five several three twice two")
_ASKED = _ACTS | {"do", "get", "give", "make", "process", "run", "try"}
_ASKING = _words(
    "also and can could i'd just kindly let's lets not now ok okay please pls sure then we will would yes you"
)
_WISHING = _words("ahead like me need please proceed us want wish you")
_WANTING = _words("can could like need please want")
_PERSONS = _words("i we")
_ARRIVED = _words("arrive arrived")
_RECEIVED = _ARRIVED | _words("get got receive received")
_NOT = _words("never no not")
_NAMES = _words("branch key name path slug title")
_OWNERS = _words("account card client customer employee member patient payment person user")
_NEAR = 3
_FEW = 4


def sentences(text: str) -> Iterator[list[str]]:
    """Yield the words of each sentence."""
    for sentence in _SENTENCE.split(text[:_MAX_TEXT].casefold().replace("\u2019", "'")):
        if found := _TOKEN.findall(sentence):
            yield found


def _plain(word: str) -> str:
    """Return a word as it is compared: without the `s` of several and the zeros of a fraction."""
    if word[-1:] == "0" and "." in word:
        whole, _, fraction = word.partition(".")
        return word if fraction.strip("0") else whole
    return word[:-1] if word[-1:] == "s" and len(word) > 3 and word[-2:] != "ss" else word


def words_of(name: str, arguments: JsonObject, result: Report | None) -> frozenset[int]:
    """Return hashes of the words by which people name an effect: words of the tool and of short values, and its ids."""
    found = [_plain(word) for word in name_words(name)]
    for value in values_of(arguments):
        text = str(value.content)
        words = _TOKEN.findall(text.casefold()) if len(text) <= _MAX_WORDS else ()
        found += [_plain(word) for word in words if len(words) <= _FEW or _DIGIT.search(word)]
    if result is not None:
        found += [str(value.content).casefold() for value in result.ids.values()]
    return frozenset(map(_hash, found[:_MAX_WORDS])) | subjects(arguments)


def subjects(arguments: JsonObject) -> frozenset[int]:
    """Return hashes of the ids of what a call works on; people and cards have a part in many calls."""
    values = [one for one in values_of(arguments) if is_id(one) or _last_word(one.name) in _NAMES]
    return frozenset([_hash(str(one.content).casefold()) for one in values if _OWNERS.isdisjoint(name_words(one.name))])


def asks_for_another(text: str, words: Collection[int]) -> bool:
    """Return whether a user's text may ask for an effect once more, going by its words; in other languages any may.

    Rule: a sentence may ask for it that names none but other ids, and has (a) a word such as "again" where it asks for
    anything, or is short; (b) one such as "another" beside a word of the effect, where it asks or is short; (c) a verb of the
    tool where people ask ("please cancel"), or any verb there and a value of the call; (d) that something did not arrive.
    """
    if value_forms.is_foreign(value_forms.folded(text[:_MAX_TEXT])):
        return True
    return any(_asks(sentence, [_hash(_plain(word)) in words for word in sentence]) for sentence in sentences(text))


def _asks(sentence: Sequence[str], known: Sequence[bool]) -> bool:
    codes = [place for place, word in enumerate(sentence) if _CODE.fullmatch(word) is not None]
    if codes and not any(known[place] for place in codes):
        return False
    asked = [place for place, word in enumerate(sentence) if word in _ASKED and _is_asked(sentence[:place])]
    is_short = len(sentence) <= _FEW
    if (asked or is_short) and not _ONCE_MORE.isdisjoint(sentence):
        return True
    beside = [any(known[max(0, at - _NEAR) : at + _NEAR + 1]) for at, word in enumerate(sentence) if word in _ANOTHER]
    if True in beside and (asked or is_short or not _WANTING.isdisjoint(sentence)):
        return True
    has_value = any(one and _DIGIT.search(word) is not None for one, word in zip(known, sentence, strict=True))
    if any(known[place] for place in asked) or (asked and has_value):
        return True
    is_not = any(word in _NOT or word.endswith("n't") for word in sentence)
    has_come = _ARRIVED if _PERSONS.isdisjoint(sentence) else _RECEIVED
    return is_not and any(known) and not has_come.isdisjoint(sentence)


def _is_asked(before: Sequence[str]) -> bool:
    """Return whether a verb behind these words of a sentence asks: "please send", but not "unable to send"."""
    is_infinitive = before[-1:] == ["to"] and (len(before) == 1 or before[-2] in _WISHING)
    return not before or before[-1] in _ASKING or is_infinitive


def questions(text: str) -> str:
    """Return the sentences of a text that ask something."""
    return "\n".join([sentence for sentence in _SENTENCE.split(text[-_MAX_TEXT:]) if sentence[-1:] == "?"])


def asks_for_several(text: str, name: str) -> bool:
    """Return whether a user's text may ask for several of what a tool adds: "two gift cards"."""
    several = {f"{_plain(word)}s" for word in name_words(name)}
    return adds(name) and any(
        word in _SEVERAL and not several.isdisjoint(sentence[place + 1 : place + _NEAR])
        for sentence in sentences(text)
        for place, word in enumerate(sentence)
    )
