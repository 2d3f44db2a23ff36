"""Where the argument values of a call come from: user, results of earlier calls, instructions, or nowhere.

Single values are looked for in everything an agent had seen; a chain follows them back through the calls whose results held
them. Bounded, as people wait for it and spans are hostile.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice, product
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from toolgauge.model.json import Json, JsonObject
from toolgauge.model.left_out import NOTHING_LEFT_OUT
from toolgauge.model.masks import is_mask
from toolgauge.model.outcomes import Result
from toolgauge.model.trajectory import CallOrigins, Message, ToolCall, Trajectory, ValueOrigin, ValueSource
from toolgauge.score.compare import path
from toolgauge.score.failing_calls import failing_calls
from toolgauge.score.origins import value_forms
from toolgauge.score.origins.grounding import Seen, Source, Texts, folded_json
from toolgauge.score.selection import readable_arguments

# `None` when a value had not been seen, "free" when it needs no source.
Origin: TypeAlias = Source | Literal["free"] | None

MAX_VALUES = 1000
_MAX_DEPTH = 20
_LONGEST_ARGUMENT = 100
# Longer text is prose: a message, a reason, a note.
_LONGEST_NAME = 80
_MOST_WORDS = 8
_MAX_IN_PROSE = 500
_LONGEST_CODE = 3
# Such as `P1` and `A4`.
_LONGEST_LABEL = 2
_FEWEST_PHONE_DIGITS = 7
# Fewer digits are in many a sentence.
_SPOKEN_DIGITS = 3

_ID_NAME = re.compile(r"(?:^|[_\-.])(?:ids?|uuids?|guid|sku|iban)$|[a-z0-9](?:Ids?|IDs?|Uuid|UUID)$|^(?:ID|Id)s?$")
# Keys that a client has to make up, ...
_CLIENT_KEY_NAME = re.compile(
    r"(?:^|_)(?:idempotency|de_?dup(?:e|lication)?)_(?:id|key|token)$|(?:^|_)nonce$|^(?:caller_reference|creation_token|cl_ord_id)$"
    r"|^(?:(?:x|api|http|external|unique|new|my)_)?(?:request|req|trace|span|correlation)_(?:id|key|token|uuid)$"
    r"|^(?:new_)?client_(?:token|(?:order|request|transaction|txn|payment|trade|message|msg|event|operation|mutation|correlation"
    r"|reference|generated)_(?:id|key|token|uuid|ref|reference))$"
)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|-")
# ... and how such a key looks: a UUID or a ULID, or letters and digits that take turns, perhaps after a word.
_UUID_FORM = re.compile(
    r"(?i:(?:[a-z]{1,16}[-_:])?[0-9a-f]{8}(?:-?[0-9a-f]{4}){3}-?[0-9a-f]{12})|[0-7][0-9A-HJKMNP-TV-Z]{25}"
)
_RANDOM_FORM = re.compile(
    r"(?:[A-Za-z]{1,16}[-_:])?(?=[\w-]{8,64}$)(?:[A-Za-z_-]*\d+[A-Za-z_-]*?(?=[A-Za-z])){3}[\w-]*"
)
_PHONE_NAME = re.compile(r"phone|mobile|(?:^|_)(?:tel|fax|cell)(?:_|$)|whatsapp|msisdn", re.IGNORECASE)
_PERSON_NAME = re.compile(
    r"^(?:first|last|middle|full|given|family|sur|user|customer|passenger|guest|patient|recipient)_?name$", re.I
)
_ID_FORM = re.compile(r"#?[\w#-]+")
# Ids of which folding changes nothing but upper case.
_PLAIN_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{2,62}[A-Za-z0-9_]")
# Punctuation, perhaps one letter, and the rest of an id: `#W9502126`, `(B) 88-213`. A letter that more letters follow begins a word.
_PREFIXED = re.compile(rb"[^a-z0-9\x80-\xff]{0,3}(?:([a-z])(?:[^a-z0-9\x80-\xff]{1,3}|(?=\d)))?([a-z0-9][!-~]{4,63})")
_LETTERS = [bytes((code,)) for code in range(ord("a"), ord("z") + 1)]
# Joints between such a letter and the rest in a text.
_JOINTS = (b"", b"_", b"-")
_SHORTEST_ID, _LONGEST_ID, _FEWEST_ID_DIGITS = 6, 64, 3
_PHONE_SHAPE = re.compile(r"\+\d(?:[ ().-]{0,3}\d){6,14}")
_UMLAUTS = str.maketrans(
    {"\u00e4": "ae", "\u00f6": "oe", "\u00fc": "ue", "\u00c4": "Ae", "\u00d6": "Oe", "\u00dc": "Ue"}
)
_TIME_SHAPE = re.compile(
    r"\d{1,2}:\d{2}(?::\d{2})?(?:\.\d+)?\s*(?:[AaPp][Mm]|Z|[+-]\d{2}:?\d{2})?|\d{1,2}\s*[AaPp]\.?[Mm]\.?"
)
_NUMBER_SHAPE = re.compile(r"[-+]?[$€£]?\s*\d[\d,]{0,20}(?:\.\d{1,10})?\s*%?")


class Value(Struct, frozen=True, gc=False):
    """One argument value, the names and places that lead to it, and the last of these names."""

    steps: tuple[str | int, ...]
    name: str
    content: str | int | float

    @property
    def path(self) -> str:
        """The place of the value as people write it: `passengers[2].last_name`."""
        return place(self.steps)


def place(steps: Sequence[str | int]) -> str:
    """Write the names and places that lead to a value."""
    where = ""
    for step in steps:
        where = f"{where}[{step}]" if isinstance(step, int) else path(where, step)
    return where


def values_of(arguments: Json) -> list[Value]:
    """Return the single values, the first of them where there are very many; null, true, false and "" hold nothing."""
    if not isinstance(arguments, (dict, list)):
        return [Value((), "", arguments)] if arguments and arguments is not True else []
    found: list[Value] = []
    stack: list[tuple[tuple[str | int, ...], str, JsonObject | list[Json]]] = [((), "", arguments)]
    while stack:
        steps, above, node = stack.pop()
        outer = steps[-_MAX_DEPTH:]
        for step, member in islice(node.items() if isinstance(node, dict) else enumerate(node), MAX_VALUES):
            name = above if isinstance(step, int) else step
            if isinstance(member, (dict, list)):
                stack.append(((*outer, step), name, member))
            elif member and member is not True:
                found.append(Value((*outer, step), name, member))
        if len(found) >= MAX_VALUES:
            return found[:MAX_VALUES]
    return found


def is_prose(text: str) -> bool:
    """Return whether a text is longer than a name: a message, a reason, a note."""
    return len(text) > _LONGEST_NAME or text.count(" ") >= _MOST_WORDS


def is_id(value: Value) -> bool:
    """Return whether a value is an id: by the name of its argument, or by its form."""
    content = value.content
    if isinstance(content, str):
        if len(content) > _LONGEST_NAME:
            return False
        # Most texts under other names are words.
        return _names_id(value.name[-_LONGEST_ARGUMENT:]) or (not content.isalpha() and _is_id_by_form(content))
    return isinstance(content, int) and _names_id(value.name[-_LONGEST_ARGUMENT:])


# The same few arguments come all day long. Without it: a tenth more for the evaluator.
@lru_cache(maxsize=1024)
def _names_id(name: str) -> bool:
    return _ID_NAME.search(name) is not None


def is_client_key(value: Value) -> bool:
    """Return whether a value is a key that the client makes up: a random text under a name such as `client_token`."""
    text = value.content
    if not isinstance(text, str) or len(text) > _LONGEST_NAME:
        return False
    if _UUID_FORM.fullmatch(text) is None and _RANDOM_FORM.fullmatch(text) is None:
        return False
    return _CLIENT_KEY_NAME.search(_CAMEL.sub("_", value.name[-_LONGEST_ARGUMENT:]).lower()) is not None


def _is_id_by_form(text: str) -> bool:
    """Return whether a text is one word of letters and at least three digits: an order, a booking, a parcel."""
    if not _SHORTEST_ID <= len(text) <= _LONGEST_ID or _ID_FORM.fullmatch(text) is None:
        return False
    return sum(map(str.isdigit, text)) >= _FEWEST_ID_DIGITS and any(map(str.isalpha, text))


def origin(value: Value, tool: str, seen: Seen, *, named: bool | None = None, is_whole: bool = False) -> Origin:
    """Return where a value comes from; `None` when it had not been seen. With `is_whole`, a piece of a short code is not the code."""
    content, named = value.content, is_id(value) if named is None else named
    if isinstance(content, str):
        # Most ids occur literally in an earlier text: nothing else is folded or matched for them.
        if named and _PLAIN_ID.fullmatch(content) is not None:
            source = seen.word(content.lower().encode(), tool)
            if source is not None:
                return source
        return _source_of_text(value.name, content.strip(), tool, seen, named=named, is_whole=is_whole)
    if -10 < content < 10 and content == int(content):
        # Counts, positions and switches: any conversation has them.
        return "free"
    return _source_of_number(content, tool, seen, may_compute=not named)


def _source_of_number(content: float, tool: str, seen: Seen, *, may_compute: bool) -> Source | None:
    try:
        text = str(int(content) if content == int(content) else content).encode()
    except (ValueError, OverflowError):
        # Not a number, or one of thousands of digits.
        return None
    source = seen.word(text, tool)
    if source is None:
        source = seen.number(float(text), tool)
    if source is None and may_compute and seen.is_computed(float(text)):
        return "derived"
    if source is None and not may_compute:
        return _source_without_prefix(text, tool, seen)
    return source


def _source_of_text(name: str, text: str, tool: str, seen: Seen, *, named: bool, is_whole: bool) -> Origin:
    has_digits = not text.isalpha() and any(map(str.isdigit, text))
    if not (has_digits or named or "@" in text or _PERSON_NAME.search(name)):
        # Other words an agent may choose freely.
        return "free"
    if len(text) <= _LONGEST_CODE and not has_digits:
        return "free"
    if is_prose(text):
        # Look for the ids and the larger numbers of a long text.
        source: Source | None = None
        for part in value_forms.parts(text)[:_MAX_IN_PROSE]:
            spelled = part.decode("utf-8", "replace")
            if not _is_id_by_form(spelled):
                continue
            found = (
                seen.word(part, tool) or _source_of_pieces(part, tool, seen) or _source_without_prefix(part, tool, seen)
            )
            if found is None:
                return None
            source = source or found
        return source or "free"
    if len(text) <= _LONGEST_LABEL and not named:
        return "free"
    joined = value_forms.word(text)
    if joined is not None and (source := seen.word(joined, tool)) is not None:
        return source
    if named:
        return _source_of_id(text, tool, seen)
    return _source_of_form(name, text, tool, seen, is_whole=is_whole)


def _source_of_form(name: str, text: str, tool: str, seen: Seen, *, is_whole: bool) -> Origin:
    """Look for a text without the form of an id that does not occur as it is."""
    if _PHONE_NAME.search(name[:_LONGEST_ARGUMENT]) or _PHONE_SHAPE.fullmatch(text):
        digits = value_forms.digits_of(text.encode("utf-8", "replace"))
        if len(digits) < _FEWEST_PHONE_DIGITS:
            return "free"
        return seen.word(digits, tool) or seen.phone(digits, tool)
    if days := tuple(value_forms.days(value_forms.folded(text))):
        return seen.day(days, tool)
    if _TIME_SHAPE.fullmatch(text):
        return "free"
    if _NUMBER_SHAPE.fullmatch(text):
        number = value_forms.number(value_forms.folded(text).strip(b"$ %\xe2\x82\xac\xc2\xa3"))
        return "free" if number is None or abs(number) < 10 else _source_of_number(number, tool, seen, may_compute=True)
    if any(map(str.isdigit, text)):
        return _source_of_parts(text, tool, seen, is_whole=is_whole)
    # Look for one of the words of a name, or for all of it in other spellings.
    pieces = _pieces(text)
    if not pieces:
        return "derived"
    fewest = 3 if any(len(piece) >= 3 for piece in pieces) else 2
    # `mueller` is written for `müller`, which is folded as `muller`.
    spelled_out = [
        *_pieces(text.translate(_UMLAUTS)),
        *(piece.replace(b"ae", b"a").replace(b"oe", b"o").replace(b"ue", b"u") for piece in pieces),
    ]
    for piece in dict.fromkeys((*pieces, b"".join(pieces), *spelled_out)):
        if len(piece) >= fewest and (source := seen.word(piece, tool)) is not None:
            return source
    may_be_elsewhere = seen.earlier.has_traces or seen.user.read().has_other_script or seen.spelled(b"".join(pieces))
    return "derived" if may_be_elsewhere else None


def _source_of_parts(text: str, tool: str, seen: Seen, *, is_whole: bool) -> Source | None:
    """Look for each part with a digit of a short text: an address, a name with a number."""
    source: Source | None = None
    parts = value_forms.parts(text)
    smalls = [part for part in parts if part.isdigit() and len(part) <= _LONGEST_LABEL and len(parts) > 1]
    for part in parts:
        if part in smalls or not any(48 <= code <= 57 for code in part):
            continue
        found = seen.word(part, tool)
        if found is None and is_whole:
            found = _source_of_id(part.decode("utf-8", "replace"), tool, seen)
        elif found is None:
            found = _source_of_pieces(part, tool, seen)
        if found is None:
            return None
        source = source or found
    if source is None and is_whole:
        # A single digit is anywhere by chance.
        is_near = any(len(small) > 1 and seen.word(small, tool) for small in smalls)
        return _source_of_id(text, tool, seen) or ("derived" if is_near else None)
    return source or "derived"


def _source_of_id(text: str, tool: str, seen: Seen) -> Source | None:
    """Look for an id that does not occur as it is: with other joints, or word by word where the user wrote it."""
    if seen.trajectory.left_out.holds(text) is True:
        return "result"
    pieces = _pieces(text)
    split = [run for piece in pieces for run in value_forms.RUNS.findall(piece)]
    for joined in dict.fromkeys(joint.join(some) for some in (pieces, split) for joint in (b"", b"-", b"_")):
        if joined and (source := seen.word(joined, tool)) is not None:
            return source
    if len(split) > 1 and seen.phrase(b" ".join(split)):
        return "user"
    if len(split) > 1 and seen.spelled(b"".join(pieces)):
        return "user"
    is_spoken = len(pieces) > 1 and any(len(piece) >= _SPOKEN_DIGITS and piece.isdigit() for piece in pieces)
    if is_spoken and all(map(seen.user.has, pieces)):
        return "user"
    numbers = [run for run in split if run.isdigit()]
    # Of earlier traces, words without digits are not remembered. One or two digits are in many a text.
    is_spoken = not numbers or any(len(number) >= _SPOKEN_DIGITS for number in numbers)
    if seen.earlier.has_traces and is_spoken and all(seen.word(number, tool) for number in numbers):
        return "earlier" if numbers else "derived"
    return _source_without_prefix(value_forms.plain(value_forms.folded(text)), tool, seen)


def _source_without_prefix(content: bytes, tool: str, seen: Seen) -> Source | None:
    """Look for an id that occurs with another prefix, or with none."""
    # Rule: a prefix of punctuation and one letter makes no other id where the rest has at least five characters, and where no id with
    # the same rest and another letter was seen.
    match = _PREFIXED.fullmatch(content)
    if match is None:
        return None
    letter, rest = match.groups()
    # Without a joint, a letter before letters would be another word.
    joints = _JOINTS if rest[:1].isdigit() else _JOINTS[1:]
    owners: dict[bytes, Source] = {}
    for one, joint in product(_LETTERS, joints):
        source = seen.word(one + joint + rest, tool)
        if source is not None:
            owners[one] = source
    if letter is None:
        return next(iter(owners.values())) if len(owners) == 1 else None
    return seen.word(rest, tool) if owners.keys() <= {letter} else None


def _source_of_pieces(part: bytes, tool: str, seen: Seen) -> Source | None:
    source: Source | None = None
    for piece in value_forms.pieces(part):
        if piece.isdigit() and len(piece) == 1:
            continue
        found = seen.word(piece, tool)
        if found is None and any(48 <= code <= 57 for code in piece):
            number = value_forms.number(piece)
            found = None if number is None else seen.number(number, tool)
            if found is None:
                return None
        source = source or found
    return source or "derived"


def _pieces(text: str) -> list[bytes]:
    return [piece for part in value_forms.parts(text) for piece in value_forms.pieces(part)]


# Values of the call itself and of each call behind it, steps back, and calls that are looked at in all.
_MAX_VALUES, _MAX_VALUES_BEHIND, _MAX_STEPS, _MAX_CALLS = 20, 4, 8, 12
# Failing calls of a run whose values are followed.
_MAX_FAILING = 5
# So many results before a call are searched, the nearest ones.
_MAX_RESULTS = 200
# Shorter words, and numbers below 10, are in many results by chance.
_SHORTEST_IN_RESULTS = 4


def value_chain(trajectory: Trajectory, call: ToolCall) -> CallOrigins:
    """Return where each argument value of a call comes from, and the origins of the calls whose results it is from."""
    # Rule: a value is the user's where the user named it before the call, else of the first call whose result held it, else of the
    # system prompt or the tool description, else worked out from such values, else the model's own.
    return _Tracer(trajectory).origins(call, _MAX_STEPS, _MAX_VALUES)


def failing_chains(
    trajectory: Trajectory, results: Sequence[Result], calls: Sequence[ToolCall] | None = None
) -> Mapping[int, CallOrigins]:
    """Return the value chains of the first failing calls of a run by their `order`, of those in `calls` alone where it is given."""
    wanted = None if calls is None else {call.order for call in calls}
    chosen = [call for call in failing_calls(results, trajectory.calls) if wanted is None or call.order in wanted]
    return {call.order: value_chain(trajectory, call) for call in chosen[:_MAX_FAILING]}


class _Tracer:
    def __init__(self, trajectory: Trajectory) -> None:
        # Rule: a model wrote the request of one agent to another, so that its values are followed further back.
        outer = tuple(run for run in trajectory.runs if run.above is None)
        prompts = {run.prompt for run in trajectory.runs if run.above is not None} - {run.prompt for run in outer}
        messages = [one for one in trajectory.messages if one.turn == 0 or one.text not in prompts]
        if len(outer) == 1 and outer[0].prompt:
            messages.append(Message(role="user", text=outer[0].prompt, turn=0))
        self._trajectory = replace(trajectory, runs=outer, messages=tuple(messages))
        self._known: dict[int, CallOrigins] = {}
        self._calls_left = _MAX_CALLS

    def origins(self, call: ToolCall, steps: int, most: int) -> CallOrigins:
        known = self._known.get(call.order)
        if known is not None:
            return known
        values = list(islice(_single_values(readable_arguments(call) or {}), MAX_VALUES))
        if not steps or not self._calls_left:
            return CallOrigins(call=call, values=(), more=len(values))
        self._calls_left -= 1
        seen = Seen(self._trajectory)
        seen.before(call)
        results: list[tuple[ToolCall, Seen]] | None = None
        found: list[ValueOrigin] = []
        looked_at = 0
        for value in values[:_MAX_VALUES]:
            if len(found) == most:
                break
            looked_at += 1
            source = _source(value, call, seen)
            # Behind the call they say nothing about its values.
            if source == "common" and most != _MAX_VALUES:
                continue
            before = None
            if source == "result":
                results = self._results_before(call) if results is None else results
                is_words = _is_long(value) or origin(value, call.name, seen) == "free"
                for one, alone in results:
                    # The first call whose result held all of the value.
                    if is_words:
                        is_held = _is_in(value, alone.results)
                    else:
                        is_held = origin(value, call.name, alone, is_whole=True) == "result"
                    if is_held:
                        before = one
                        break
            result_of = None if before is None else self.origins(before, steps - 1, _MAX_VALUES_BEHIND)
            found.append(ValueOrigin(path=value.path, value=value.content, source=source, result_of=result_of))
        made = CallOrigins(call=call, values=tuple(found), more=len(values) - looked_at)
        self._known[call.order] = made
        return made

    def _results_before(self, call: ToolCall) -> list[tuple[ToolCall, Seen]]:
        """Return each earlier call with the texts of its result alone."""
        earlier = [one for one in self._trajectory.calls if one.order < call.order]
        alone = replace(self._trajectory, messages=(), runs=(), tools_offered=None, left_out=NOTHING_LEFT_OUT)
        alone = replace(alone, registered_tools={})
        found = [(one, Seen(replace(alone, calls=(one,)))) for one in earlier[-_MAX_RESULTS:]]
        for _, seen in found:
            seen.before(call)
        return found


def _source(value: Value, call: ToolCall, seen: Seen) -> ValueSource:
    content = value.content
    if content is True or not content or (isinstance(content, str) and not content.strip()):
        return "common"
    found = "free" if _is_long(value) else origin(value, call.name, seen, is_whole=True)
    if found == "free":
        # Words that an agent may choose freely are somebody else's only where they occur as they are.
        is_short = not isinstance(content, str) or len(content.strip()) < _SHORTEST_IN_RESULTS
        places: list[tuple[ValueSource, Texts]] = [("user", seen.user)]
        if not is_short:
            places.extend((("result", seen.results), ("system", seen.system), ("schema", seen.schema(call.name))))
        for source, texts in places:
            if _is_in(value, texts):
                return source
        if is_short:
            return "common"
        return "unknown" if seen.gap is not None else "model"
    if found is None:
        is_masked = isinstance(content, str) and is_mask(content)
        return "unknown" if seen.gap is not None or is_masked else "model"
    return "system" if found == "known" else found


def _single_values(arguments: JsonObject) -> Iterator[Value]:
    """Yield the single values in the order of the arguments; 0, true, false and empty texts only at the top, null nowhere."""
    for name, member in arguments.items():
        inner: Json = {name: member}
        found = values_of(inner)
        if not found and isinstance(member, bool | int | float | str):
            yield Value((name,), name, member)
        yield from found


def _is_long(value: Value) -> bool:
    return isinstance(value.content, str) and is_prose(value.content.strip())


def _is_in(value: Value, texts: Texts) -> bool:
    """Return whether the texts hold a text as it is, by itself or in JSON, or a number however it is written."""
    if not isinstance(value.content, str):
        return value.content in texts.numbers
    text = value.content.strip()
    in_json = (folded_json([text]) or b"")[2:-2]
    return any(texts.has_phrase(phrase) for phrase in dict.fromkeys((value_forms.folded(text), in_json)) if phrase)
