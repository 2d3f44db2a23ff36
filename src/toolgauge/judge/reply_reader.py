"""A model's reply, read as the verdict of a form: JSON, alone or in prose, or a label or a number alone on a line.

A reply without one verdict is asked for again: guessing would be a false score.
"""

import json
import re
from collections.abc import Callable, Sequence

from msgspec import Struct

from toolgauge.model.json import Json, JsonObject

_MARKUP = " \t*`_\"'#>$[](){}\u2018\u2019\u201c\u201d"
_NUMBER = re.compile(r"[+-]?(?:\d{1,9}(?:\.\d{1,20})?|\.\d{1,20})")
_SENTENCES = re.compile(r"\n|(?<=[.!])\s")
_TAG = re.compile(r"</?\w{1,40}>")
_NOUNS = "answer|verdict|score|rating|label|judge?ment|result|conclusion|decision|grade|assessment|evaluation"


class Scale(Struct, frozen=True):
    """The values that a verdict may have. `read` returns the value of a text without anything else, `None` off the scale;
    `labels` finds labels in running text, where the scale has any.
    """

    read: Callable[[str], Json]
    description: str
    labels: re.Pattern[str] | None = None


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


def stated_values(text: str, name: str, scale: Scale) -> list[Json]:
    """Return the values that stand alone on a line, or a label in a sentence, and any label beside them; `None` is off the scale."""
    stated: list[Json] = []
    for line in _SENTENCES.split(text) if scale.labels else text.split("\n"):
        bare = _bare(line, name)
        value = scale.read(bare)
        if value is not None or (scale.labels is None and _NUMBER.fullmatch(bare)):
            stated.append(value)
    return [*stated, *_all_labels(text, scale)] if stated else []


def _bare(line: str, name: str) -> str:
    """Take markup and a word for the verdict off a line: `yes` of "**Answer:** yes."."""
    text = line.strip(_MARKUP)
    noun = re.match(rf"(?i)(?:(?:final|my|the) )*(?:{_NOUNS}|{re.escape(name)})\b(?: is)?(?:[\s:=*`_]|-(?=\s))*", text)
    return text[noun.end() if noun else 0 :].rstrip(f"{_MARKUP}.!").strip(_MARKUP)


def _all_labels(text: str, scale: Scale) -> list[Json]:
    return [] if scale.labels is None else [scale.read(found[0]) for found in scale.labels.finditer(text)]


def _labels(labels: tuple[tuple[str, Json], ...]) -> Scale | None:
    values = {normalized(label): value for label, value in labels}
    if len(values) < len(labels) or "" in values:
        return None
    # The longest first: "Generally Yes" is one label, not "Yes".
    words = sorted(values, key=len, reverse=True)
    spelled = "|".join(re.escape(word).replace(r"\ ", r"[\s_-]+").replace("/", r"\s?/\s?") for word in words)
    return Scale(
        read=lambda text: values.get(normalized(text)),
        description="one of " + ", ".join(label for label, _ in labels),
        labels=re.compile(rf"(?<![\w/-])(?:{spelled})(?![\w/]|-\w|'\w)", re.IGNORECASE),
    )


def _numbers(schema: JsonObject) -> Scale:
    bounds = (schema.get("minimum"), schema.get("maximum"))
    least, most = (float(one) if isinstance(one, int | float) and not isinstance(one, bool) else None for one in bounds)
    is_integer = schema.get("type") == "integer"

    def read(text: str) -> Json:
        if not _NUMBER.fullmatch(text):
            return None
        value = float(text)
        if (least is not None and value < least) or (most is not None and value > most):
            return None
        return value if not is_integer else int(value) if value.is_integer() else None

    ends = f" from {least:g} to {most:g}" if least is not None and most is not None else ""
    return Scale(read=read, description=f"a number{ends}")


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
    """Read the verdict out of a text: from its JSON if it holds any, else from a line that is a label or number alone.
    Thoughts before the answer and objects with no property of the form are ignored; all other objects have to agree.
    """
    whole = _decoded(text)
    if isinstance(whole, dict):
        return _agreed([whole], "", "", form_name, form)
    if isinstance(whole, str):
        # Some models write the verdict as JSON, and that as a JSON text once more.
        text = whole
    if len(text) > _MAX_TEXT:
        return Unread(_NOT_JSON if text.lstrip()[:1] in ("{", "[") else "the reply is too long to be a verdict")
    text = _CONTROL_TOKENS.sub("\n", _THOUGHT_BEGINS.sub("", _THOUGHT_ENDS.sub("", text)))
    found = _objects(text)
    if found is None:
        return Unread(_NOT_JSON)
    objects, before, after = found
    if objects:
        return _agreed(objects, before, after, form_name, form)
    deciding = _deciding(form)
    text = _TAG.sub("\n", text).strip()
    stated = [] if deciding is None else stated_values(text, *deciding)
    if deciding is None or not stated:
        return Unread()
    if None in stated:
        return Unread("the score is not on the scale that was asked for")
    if any(value != stated[0] for value in stated):
        return Unread(_SEVERAL)
    return _explained({deciding[0]: stated[0]}, text, form)


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
            known = scale.read(value.rstrip(".! ").strip())
            return value if known is None else known
        case _:
            return value


def _agreed(
    objects: Sequence[JsonObject], before: str, after: str, form_name: str, form: JsonObject
) -> JsonObject | Unread:
    """Return the verdict that all objects give; the text around them must state no other one, nor name one behind them."""
    properties = _properties(form)
    # Rule: properties that the form does not have are left out, such as a confidence.
    is_closed = form.get("additionalProperties") is False
    verdicts: list[JsonObject] = []
    for value in objects:
        verdict = fitted(_unwrapped(value, form_name, properties), form)
        if verdict is None:
            return Unread(_SEVERAL)
        if isinstance(verdict, dict) and not properties.keys().isdisjoint(verdict):
            verdicts.append(
                {name: entry for name, entry in verdict.items() if name in properties} if is_closed else verdict
            )
    if not verdicts:
        names = ", ".join(f"`{name}`" for name in properties)
        return Unread(f"the verdict must have the properties {names}")
    if any(_decisive(verdict, properties) != _decisive(verdicts[0], properties) for verdict in verdicts):
        return Unread(_SEVERAL)
    deciding = _deciding(form)
    around = f"{before}{after}".strip()
    if around and deciding is not None:
        name, scale = deciding
        other = [*stated_values(f"{before}\n{after}", name, scale), *_all_labels(after, scale)]
        if any(value != verdicts[0].get(name) for value in other):
            return Unread(_SEVERAL)
    return _explained(verdicts[-1], around, form) if around or len(objects) > 1 else verdicts[-1]


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


def _objects(text: str) -> tuple[list[JsonObject], str, str] | None:
    """Return the outermost JSON objects and the text before and after them; `None` where a brace begins no object, as all is then unsure."""
    objects: list[JsonObject] = []
    between: list[str] = []
    at = 0
    while (start := text.find("{", at)) >= 0:
        between.append(text[at:start])
        try:
            value, at = _DECODER.raw_decode(text, start)
            json.dumps(value, ensure_ascii=False).encode()
        except (ValueError, RecursionError):
            return None
        objects.append(value)
        if len(objects) > _MAX_OBJECTS:
            return None
    return objects, "".join(between), text[at:]


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
