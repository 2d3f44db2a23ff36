"""A model's reply, read as the verdict of a form: JSON, alone or in prose, or a label or a number in plain text.

An ambiguous reply has no verdict: guessing would be a false score, and asking again costs one call.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

from msgspec import Struct

from toolgauge.model.json import Json, JsonObject

_NOT_ON_SCALE = "the score is not on the scale that was asked for"
_TWO_VALUES = "give one verdict: the reply names several"
_CONDITIONAL = "give a verdict without conditions"

# Limit on the text searched before a statement: an endless sentence with many statements would take long.
_MAX_SENTENCE = 300
_TAG = re.compile(r"<(\w{1,40})>")
_END_TAG = re.compile(r"</\w{1,40}>")
_TYPOGRAPHY = {
    **dict.fromkeys((0x2018, 0x2019), "'"),  # single quotation marks
    **dict.fromkeys((0x201C, 0x201D), '"'),  # double ones
    **dict.fromkeys((0x2013, 0x2212), "-"),  # a short dash, and a minus sign
    0x2014: " - ",  # a long dash
    0x2192: "->",  # an arrow
}
_MARKUP = re.compile(r"[*`\"#>$\[\]]|(?<!\w)_+|_+(?!\w)|(?<!\w)'|'(?!\w)")
_BULLET = re.compile(r"^[-+\u2022] ", re.MULTILINE)
_NOUNS = "answer|verdict|score|rating|label|judge?ment|result|conclusion|decision|grade|assessment|evaluation"
# A property with one of these in its name describes a verdict or its scale.
_NO_VERDICT = re.compile(r"\b(?:confidence|min|max|minimum|maximum|threshold)\b")
_EQUALS = r"(?:\s*(?::|=|->)|\s+(?:(?:is|was|of)\b|-(?=\s)))(?:\s*(?::|is\b))?"
_CONCLUSION = (
    r"\b(?:therefore|thus|hence|so|overall|finally|to conclude|in (?:short|summary|conclusion|my opinion))\s?[,:]"
)
_THING = r"(?:this|it|that|(?:this|the) (?:tool )?(?:call|choice|selection|response|argument))"
_FIRST_PERSON = (
    r"\bI(?: would|'d)? (?:say|answer|conclude|judge|think|believe|choose|pick"
    rf"|(?:give|rate|score)(?: {_THING})?(?: as| at| with)?)(?: that)?\s?[:,]?"
)
_DESCRIPTION = rf"(?:^|[.!;] )(?:(?:{_CONCLUSION}|I (?:think|believe)(?: that)?) )?{_THING} (?:is|was)"
_INTERJECTION = r"(?:(?:well|hm+|so|sure|ok|okay|certainly|definitely|absolutely|clearly|indeed)[,.:!]* )?"
# After a verdict comes its end, or its reason.
_ENDS = r"(?=\s*(?:$|[.;:,!)(](?!\d)|-+(?=\s)|(?:because|since|as|due to|points?|stars?)\b))"
_CONDITION = re.compile(
    r"[\s,;:.!)-]*(?:but|if|unless|except|only|or)\b"
    r"|[ \t,;:.!)-]*(?:and|though|although|however|assuming|provided|depending|not"
    r"|I|I'\w+|we|you|let|please|here|sure)\b",
    re.IGNORECASE,
)
# In front of a statement these make it a condition, a quotation or a denial.
_NOT_STATED = re.compile(
    r"\b(?:if|unless|whether|when|could be|might be|may be|suppos\w+|assuming)\b"
    r"|\b(?:not|never|cannot|\w+n't) (?:\w+ )?(?:think|believe|say|agree|conclude|sure|certain|clear|case|true)\b"
    r"|\b(?:said|says|wrote|writes|asks|asked|states|stated|claims|claimed|quotes|quoted|replied|answered"
    r"|told|instructed)\b(?:(?!\b(?:so|then|thus|hence|therefore)\b)[^.;\n]){0,20}$",
    re.IGNORECASE,
)
_NEGATION = (
    r"\b(?:not|never|cannot|neither|nor|hardly|barely|almost|nearly|partly|partially|mostly|somewhat|maybe|perhaps"
    r"|possibly|\w+n't) (?:\w+ ){0,2}"
)
_NUMBER = (
    r"(?<![\w.,/%+-])(?P<number>[+-]?(?:\d{1,9}(?:\.\d{1,20})?|\.\d{1,20}))"
    r"(?:\s?/\s?(?P<most>\d{1,9}(?:\.\d{1,9})?)|\s+(?:out )?of\s+(?P<total>\d{1,9}(?:\.\d{1,9})?)|\s?(?P<percent>%|percent\b))?"
    r"(?!\d|\w|[.,/:]\d|\s*(?:-|~|to|or|and)\s*\.?\d)"
)


class Ambiguous(Struct, frozen=True):
    """A text that states several values, or no usable one; `problem` is for the judge to read."""

    problem: str


class Scale(Struct, frozen=True):
    """The values that a verdict may have: labels, or numbers (`is_numeric`), which may also count or date something else.
    `pattern` finds a value, `read` is its value, `None` where it is not on the scale.
    """

    pattern: str
    read: Callable[[re.Match[str]], Json]
    description: str
    is_numeric: bool

    def whole(self, text: str) -> Json:
        """Return the value of a text without anything else, "yes." or "4/5"; otherwise `None`."""
        found = re.fullmatch(rf"\s*(?:{self.pattern})[.!\s]*", _plain(text), re.IGNORECASE)
        return None if found is None else self.read(found)


def scale_of(schema: Json) -> Scale | None:
    """Return the scale of one property; `None` where it has none that plain text can state."""
    if not isinstance(schema, dict):
        return None
    labels = schema.get("enum")
    if isinstance(labels, list):
        names = tuple(label for label in labels if isinstance(label, str))
        return _labels(tuple((name, name) for name in names)) if names and len(names) == len(labels) else None
    match schema.get("type"):
        case "boolean":
            return _labels((("true", True), ("yes", True), ("false", False), ("no", False)))
        case "number" | "integer":
            return _numbers(schema)
        case _:
            return None


def normalized(name: str) -> str:
    """Normalize a name or label, so that its spellings compare equal."""
    return re.sub(r"[\s_-]+", " ", re.sub(r"\s*/\s*", "/", name)).strip().casefold()


def names_verdict(key: str, name: str) -> bool:
    """Return whether the name of a property ends as that of a verdict does: "final_score", but not "max_score"."""
    spelled = normalized(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", key))
    ends = re.search(rf"(?:^| )(?:{_NOUNS}|{re.escape(normalized(name))})$", spelled)
    return ends is not None and not _NO_VERDICT.search(spelled)


def stated_value(text: str, name: str, scale: Scale) -> Json | Ambiguous:
    """Return the value that a text states for the property of this name; `None` where it states none."""
    plain = _plain(text)
    statements = tuple(_statements(plain, name, scale))
    # "Yes, but only if ..." is no verdict; "Yes, I can help you" is an answer to somebody else.
    if any(_CONDITION.match(plain, found.end()) for found in statements):
        return Ambiguous(_CONDITIONAL)
    stated = [scale.read(found) for found in statements]
    if None in stated:
        return Ambiguous(_NOT_ON_SCALE)
    # Another label anywhere makes a reply ambiguous. Numbers count other things, too.
    labels = () if scale.is_numeric else _compiled(scale.pattern).finditer(plain)
    values = [*stated, *map(scale.read, labels)]
    if any(value != values[0] for value in values):
        return Ambiguous(_TWO_VALUES)
    if not stated:
        return None
    if not scale.is_numeric and _compiled(f"{_NEGATION}{scale.pattern}").search(plain):
        return Ambiguous(_CONDITIONAL)
    return stated[0]


def contradicts(text: str, name: str, scale: Scale, value: Json) -> bool:
    """Return whether a text states another value than this one."""
    return any(scale.read(found) != value for found in _statements(_plain(text), name, scale))


def _statements(plain: str, name: str, scale: Scale) -> Iterator[re.Match[str]]:
    value = f"(?:{scale.pattern})"
    # "1." begins a list, and "3 calls" counts: where numbers may mean anything, they need a fraction or a percentage.
    bare = rf"(?=[^\s]*[./%]\d|\S+%|\S+ (?:out )?of \d){value}" if scale.is_numeric else value
    alone = rf"^[ \t]*{value}[ \t]*$" if scale.is_numeric else rf"^[ \t]*{value}[.!]?[ \t]*$"
    noun = rf"\b(?:{_NOUNS}|{re.escape(name)})(?:\s*\([^()\n]{{0,40}}\))?"
    marker = rf"(?:{noun}{_EQUALS}|{_FIRST_PERSON}|{_CONCLUSION}|{_DESCRIPTION})\s*(?:an?\s+)?"
    yield from _compiled(alone).finditer(plain)
    for pattern in (rf"\A\s*{value}\s*\.?\s*\Z", rf"\A\s*{_INTERJECTION}{bare}{_ENDS}", rf"[.!]\s+{bare}[.!]?\s*\Z"):
        if (found := _compiled(pattern).search(plain)) is not None:
            yield found
    # "Score 4/5", without anything between them.
    named = rf"{noun} {bare}{_ENDS}"
    for found in (
        match for pattern in (named, f"{marker}{value}{_ENDS}") for match in _compiled(pattern).finditer(plain)
    ):
        begin = max(0, found.start() - _MAX_SENTENCE)
        sentence = max(begin, *(plain.rfind(mark, begin, found.start()) + 1 for mark in ".!?;\n"))
        if not _NOT_STATED.search(plain[sentence : found.start()]):
            yield found


def _plain(text: str) -> str:
    """Take markup away; a tag such as `<score>` becomes the word in front of a value."""
    tagless = _END_TAG.sub("\n", _TAG.sub(r"\n\1: ", text.translate(_TYPOGRAPHY)))
    # Without long runs of spaces, all searches are linear.
    lines = re.sub(r" ?\n[ \n]*", "\n", re.sub(r"[^\S\n]+", " ", _MARKUP.sub("", tagless)))
    return _BULLET.sub("", lines.strip())


def _labels(labels: tuple[tuple[str, Json], ...]) -> Scale | None:
    values = {normalized(label): value for label, value in labels}
    if len(values) < len(labels) or "" in values:
        return None
    # The longest first: "Generally Yes" is one label, not "Yes".
    words = sorted(values, key=len, reverse=True)
    spelled = "|".join(re.escape(word).replace(r"\ ", r"[\s_-]+").replace("/", r"\s?/\s?") for word in words)
    return Scale(
        pattern=rf"(?<![\w/-])(?P<label>{spelled})(?![\w/]|-\w|'\w)",
        read=lambda found: values.get(normalized(found["label"])),
        description="one of " + ", ".join(label for label, _ in labels),
        is_numeric=False,
    )


def _numbers(schema: JsonObject) -> Scale:
    bounds = (schema.get("minimum"), schema.get("maximum"))
    least, most = (float(one) if isinstance(one, int | float) and not isinstance(one, bool) else None for one in bounds)
    is_integer = schema.get("type") == "integer"

    def read(found: re.Match[str]) -> Json:
        # "4/5" is 4 where the scale ends at 5, and 0.8 of one that begins at 0.
        value, percent = float(found["number"]), found["percent"]
        total = found["most"] or found["total"]
        if percent or (total and float(total) != most):
            whole = 100.0 if percent else float(total)
            if least != 0 or most is None or not 0 <= value <= whole or whole == 0:
                return None
            value = most * value / whole
        if (least is not None and value < least) or (most is not None and value > most):
            return None
        return value if not is_integer else int(value) if value.is_integer() else None

    ends = f" from {least:g} to {most:g}" if least is not None and most is not None else ""
    return Scale(pattern=_NUMBER, read=read, description=f"a number{ends}", is_numeric=True)


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE | re.MULTILINE)


# Longer replies are read only where all of one is JSON.
_MAX_TEXT = 64 * 1024
_MAX_OBJECTS = 50
_NOT_JSON = "the verdict is not valid JSON"
_SEVERAL = "give one verdict, not several"
_THOUGHT = "(?:think|thinking|thoughts?|reasoning|reflection)"
_THOUGHT_ENDS = re.compile(rf"(?is)\A.*(?:[<\[◁]/{_THOUGHT}[>\]▷]|<\|channel\|>final<\|message\|>)")
_THOUGHT_BEGINS = re.compile(rf"(?is)[<\[◁]{_THOUGHT}[>\]▷].*\Z")
_CONTROL_TOKENS = re.compile(r"<\|[^|<>\n]{1,40}\|>|</?s>|```(?:json)?")
_WRAPPERS = ("function", "arguments", "parameters")


class Unread(Struct, frozen=True):
    """A reply without a verdict; `problem` is for the judge to read. It is empty where nothing looks like a verdict."""

    problem: str = ""


def read_reply(text: str, form_name: str, form: JsonObject) -> JsonObject | Unread:
    """Read the verdict out of a text: from its JSON if it holds any, else from the label or number that it states.
    Thoughts before the answer and objects with no property of the form are ignored; all other objects have to agree.
    """
    whole = _decoded(text)
    if isinstance(whole, dict):
        return _agreed([whole], "", form_name, form)
    if isinstance(whole, str):
        # Some models write the verdict as JSON, and that as a JSON text once more.
        text = whole
    if len(text) > _MAX_TEXT:
        return Unread(_NOT_JSON if text.lstrip()[:1] in ("{", "[") else "the reply is too long to be a verdict")
    text = _CONTROL_TOKENS.sub("\n", _THOUGHT_BEGINS.sub("", _THOUGHT_ENDS.sub("", text)))
    found = _objects(text)
    if found is None:
        return Unread(_NOT_JSON)
    objects, around = found
    if objects:
        return _agreed(objects, around.strip(), form_name, form)
    deciding = _deciding(form)
    text = text.strip()
    value = None if deciding is None else stated_value(text, *deciding)
    if isinstance(value, Ambiguous):
        return Unread(value.problem)
    return Unread() if value is None or deciding is None else _explained({deciding[0]: value}, text, form)


def fitted(value: Json, schema: Json) -> Json:
    """Write names and labels as the form does, and numbers in texts as numbers; the rest stays as it is."""
    if not isinstance(schema, dict):
        return value
    match value:
        case dict():
            properties = _properties(schema)
            names = {normalized(name): name for name in properties}
            members = [(names.get(normalized(name), name), entry) for name, entry in value.items()]
            # `score` beside `Score`: two verdicts in one object.
            if len(dict(members)) < len(members):
                return None
            return {name: fitted(entry, properties.get(name)) for name, entry in members}
        case list():
            return [fitted(entry, schema.get("items")) for entry in value]
        case str() if (scale := scale_of(schema)) is not None:
            known = scale.whole(value)
            return value if known is None else known
        case _:
            return value


def _agreed(objects: Sequence[JsonObject], around: str, form_name: str, form: JsonObject) -> JsonObject | Unread:
    """Return the verdict that all objects give; what the text around them states must not be another one."""
    properties = _properties(form)
    # Rule: properties that the form does not have are left out, such as a confidence; one that states another verdict is refused.
    is_closed = form.get("additionalProperties") is False
    verdicts: list[JsonObject] = []
    for value in objects:
        verdict = fitted(_unwrapped(value, form_name, properties), form)
        if verdict is None:
            return Unread(_SEVERAL)
        if isinstance(verdict, dict) and not properties.keys().isdisjoint(verdict):
            extra = {name: entry for name, entry in verdict.items() if name not in properties}
            if _holds_other_verdict(extra, verdict, form):
                return Unread(_SEVERAL)
            verdicts.append(
                {name: entry for name, entry in verdict.items() if name in properties} if is_closed else verdict
            )
    if not verdicts:
        names = ", ".join(f"`{name}`" for name in properties)
        return Unread(f"the verdict must have the properties {names}")
    if any(_decisive(verdict, properties) != _decisive(verdicts[0], properties) for verdict in verdicts):
        return Unread(_SEVERAL)
    deciding = _deciding(form)
    if around and deciding is not None:
        name, scale = deciding
        if contradicts(around, name, scale, verdicts[0].get(name)):
            return Unread(_SEVERAL)
    return _explained(verdicts[-1], around, form) if around or len(objects) > 1 else verdicts[-1]


def _holds_other_verdict(extra: JsonObject, verdict: JsonObject, form: JsonObject) -> bool:
    """Return whether a property outside the form, at any depth, has the name of a verdict and another value."""
    deciding = _deciding(form)
    if deciding is None:
        return False
    name, scale = deciding
    layer: list[Json] = [extra]
    while layer:
        value = layer.pop()
        if isinstance(value, list):
            layer.extend(value)
        elif isinstance(value, dict):
            layer.extend(value.values())
            stated = [entry for key, entry in value.items() if names_verdict(key, name)]
            values = [scale.whole(str(entry)) for entry in stated if isinstance(entry, str | int | float)]
            if any(value not in (None, verdict.get(name)) for value in values):
                return True
    return False


def _explained(verdict: JsonObject, around: str, form: JsonObject) -> JsonObject:
    """Fill required texts that decide nothing, such as the reasoning, with the text around the verdict."""
    required = form.get("required")
    missing = [
        name
        for name, schema in _properties(form).items()
        if name not in verdict and isinstance(required, list) and name in required and _is_free_text(schema)
    ]
    return {**dict.fromkeys(missing, around), **verdict}


def _unwrapped(value: JsonObject, form_name: str, properties: JsonObject) -> JsonObject:
    """Return the arguments of a tool call that was written out as text."""
    for _ in range(len(_WRAPPERS)):
        if not properties.keys().isdisjoint(value):
            return value
        if value.get("name", form_name) != form_name:
            return {}
        inner = next((value[key] for key in (*_WRAPPERS, form_name) if key in value), None)
        if not isinstance(inner, dict):
            return value
        value = inner
    return value


def _decisive(verdict: JsonObject, properties: JsonObject) -> JsonObject:
    return {name: value for name, value in verdict.items() if not _is_free_text(properties.get(name))}


def _deciding(form: JsonObject) -> tuple[str, Scale] | None:
    """Return the one property that is no free text, with its scale; `None` where plain text cannot fill the form."""
    deciding = [(name, schema) for name, schema in _properties(form).items() if not _is_free_text(schema)]
    if len(deciding) != 1:
        return None
    ((name, schema),) = deciding
    scale = scale_of(schema)
    return None if scale is None else (name, scale)


def text_format(form: JsonObject) -> str | None:
    """Describe an answer in plain text; `None` where only JSON can fill the form."""
    deciding = _deciding(form)
    if deciding is None:
        return None
    name, scale = deciding
    return f"Reply in plain text. End with one line that holds only `{name}: ` and {scale.description}."


def json_format(form: JsonObject) -> str:
    """Describe an answer in JSON."""
    return f"Reply with one JSON object that fits this JSON Schema, and with nothing else:\n{json.dumps(form)}"


def _properties(schema: JsonObject) -> JsonObject:
    properties = schema.get("properties")
    return properties if isinstance(properties, dict) else {}


def _is_free_text(schema: Json) -> bool:
    if not isinstance(schema, dict) or "enum" in schema or "const" in schema:
        return False
    return schema.get("type") in ("string", ["string", "null"])


def _objects(text: str) -> tuple[list[JsonObject], str] | None:
    """Return the outermost JSON objects and the text around them; `None` where a brace begins no object, as all is then unsure."""
    objects: list[JsonObject] = []
    around: list[str] = []
    at = 0
    while (start := text.find("{", at)) >= 0:
        around.append(text[at:start])
        try:
            value, at = _DECODER.raw_decode(text, start)
            json.dumps(value, ensure_ascii=False).encode()
        except (ValueError, RecursionError):
            return None
        objects.append(value)
        if len(objects) > _MAX_OBJECTS:
            return None
    return objects, "".join((*around, text[at:]))


def _decoded(text: str) -> Json:
    """Return a text that is JSON as a whole; `None` where it is none, or no text that can be sent on."""
    try:
        value: Json = _DECODER.decode(text)
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None
    return value


def _once(members: list[tuple[str, Json]]) -> JsonObject:
    value = dict(members)
    if len(value) < len(members):
        raise ValueError("a name is there twice")
    return value


def _finite(written: str) -> float:
    number = float(written)
    if not abs(number) < float("inf"):  # not a number, or beyond all numbers
        raise ValueError("no number of JSON")
    return number


# Names that are there twice may be two verdicts. Line breaks inside of texts are not JSON, and no reason to ask again.
_DECODER = json.JSONDecoder(object_pairs_hook=_once, parse_constant=_finite, parse_float=_finite, strict=False)
