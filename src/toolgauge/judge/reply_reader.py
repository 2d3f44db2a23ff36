"""A model's reply, read as the verdict of a form: the JSON object that ends it, or a label or number alone on its last line.

Any other reply is asked for again: guessing would be a false score.
"""

import json
import re
from collections.abc import Callable, Sequence

from msgspec import Struct

from toolgauge.model.json import Json, JsonObject

_MAX_TEXT = 64 * 1024
_MARKUP = " \t*`_\"'#>()[]"
_NUMBER = re.compile(r"[+-]?(?:\d{1,9}(?:\.\d{1,20})?|\.\d{1,20})")
_THOUGHT = "(?:think|thinking|thoughts?|reasoning)"
_THOUGHT_ENDS = re.compile(rf"(?is)\A.*[<\[]/{_THOUGHT}[>\]]")
_THOUGHT_BEGINS = re.compile(rf"(?is)[<\[]{_THOUGHT}[>\]].*\Z")
_FENCES = re.compile(r"```(?:json)?|<\|[^|<>\n]{1,40}\|>|</?s>")
_SEVERAL = "give one verdict, not several"


class Unread(Struct, frozen=True):
    """A reply without a verdict; `problem` is for the judge to read. It is empty where nothing looks like a verdict."""

    problem: str = ""


class Scale(Struct, frozen=True):
    """The values that a verdict may have. `read` returns the value of a text without anything else, `None` off the scale."""

    read: Callable[[str], Json]
    description: str


def read_reply(text: str, form: JsonObject) -> JsonObject | Unread:
    """Read the verdict; thoughts before the answer are ignored, and a label alone on any line has to agree with it."""
    if len(text) > _MAX_TEXT:
        return Unread("the reply is too long to be a verdict")
    written, before = _decoded(text), ""
    if not isinstance(written, dict):
        text = _FENCES.sub("\n", _THOUGHT_BEGINS.sub("", _THOUGHT_ENDS.sub("", text))).strip()
        before, brace, _ = text.partition("{")
        written = _decoded(text[len(before) :]) if brace else None
        if brace and written is None:
            return Unread("the verdict is not valid JSON")
    name, scale = _deciding(form) or ("", None)
    # A line without markup and a word for the verdict: `yes` of "**Answer:** yes.".
    noun = re.compile(rf"(?i)\A(?:final )?(?:answer|verdict|score|{re.escape(name)})[\s*_`]*[:=]")
    lines = [noun.sub("", line.strip(_MARKUP)) for line in before.splitlines() if line.strip()]
    bare = [] if scale is None else [line.rstrip(f"{_MARKUP}.!").lstrip(_MARKUP) for line in lines]
    stated = [] if scale is None else [value for line in bare if (value := scale.read(line)) is not None]
    verdict: JsonObject
    if written is None:
        if bare and (scale is None or scale.read(bare[-1]) is None):
            return Unread("the score is not on the scale that was asked for" if _NUMBER.fullmatch(bare[-1]) else "")
        if not stated:
            return Unread()
        verdict = {name: stated[-1]}
        before = text
    else:
        fitting, properties = fitted(written, form), _properties(form)
        if not isinstance(fitting, dict):
            return Unread(_SEVERAL)
        if properties.keys().isdisjoint(fitting):
            return Unread(f"the verdict must have the properties {', '.join(f'`{one}`' for one in properties)}")
        # Rule: properties that the form does not have are left out, such as a confidence.
        is_closed = form.get("additionalProperties") is False
        verdict = {one: entry for one, entry in fitting.items() if one in properties or not is_closed}
    if any(value != verdict.get(name) for value in stated):
        return Unread(_SEVERAL)
    required = form.get("required")
    if before.strip() and isinstance(required, list):
        # Required texts that decide nothing, such as the reasoning, are filled with the text around the verdict.
        missing = [one for one, schema in _properties(form).items() if one in required and _is_free_text(schema)]
        return {**dict.fromkeys([one for one in missing if one not in verdict], before.strip()), **verdict}
    return verdict


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


def _labels(labels: Sequence[tuple[str, Json]]) -> Scale | None:
    values = {_normalized(label): value for label, value in labels}
    if len(values) < len(labels) or "" in values:
        return None
    described = "one of " + ", ".join(label for label, _ in labels)
    return Scale(read=lambda text: values.get(_normalized(text)), description=described)


def _normalized(name: str) -> str:
    """Normalize a name or label, so that its spellings compare equal."""
    return re.sub(r"[\s_-]+", " ", re.sub(r"\s*/\s*", "/", name)).strip().casefold()


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


def fitted(value: Json, schema: Json) -> Json:
    """Write names and labels as the form does, and numbers in texts as numbers; the rest stays as it is."""
    if not isinstance(schema, dict):
        return value
    match value:
        case dict():
            properties = _properties(schema)
            names = {_normalized(name): name for name in properties}
            members = [(names.get(_normalized(name), name), entry) for name, entry in value.items()]
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


def _deciding(form: JsonObject) -> tuple[str, Scale] | None:
    """Return the one property other than free text, with its scale; `None` where plain text cannot fill the form."""
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


def _decoded(text: str) -> Json:
    """Return a text that is JSON as a whole; `None` for other texts, and for JSON that cannot be sent on."""
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


# A name given twice may be two verdicts. Line breaks inside of texts are not JSON, and no reason to ask again.
_DECODER = json.JSONDecoder(object_pairs_hook=_once, parse_constant=_finite, parse_float=_finite, strict=False)
