"""A model's reply, read as the verdict of a form: JSON, alone or in prose, or a label or a number in plain text.

The text of any model comes in, and one verdict or its problem goes out. An ambiguous reply has no verdict: guessing
would be a false score, and asking again costs one call.
"""

import json
import re
from collections.abc import Sequence

from msgspec import Struct

from toolgauge.judge.stated_values import (
    Ambiguous,
    Scale,
    contradicts,
    names_verdict,
    normalized,
    scale_of,
    stated_value,
)
from toolgauge.model.json import Json, JsonObject

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
    """Read the verdict out of a text.

    A reply that holds JSON is read by its JSON; objects with no property of the form are ignored, all others have to
    agree. A reply without JSON is read by the label or number that it states. Thoughts before the answer are skipped.
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
    return _stated(text.strip(), form)


def fitted(value: Json, schema: Json) -> Json:
    """Write names and labels as the form does, and numbers in texts as numbers; the rest stays as it is."""
    if not isinstance(schema, dict):
        return value
    match value:
        case dict():
            return _fitted_object(value, schema)
        case list():
            return [fitted(entry, schema.get("items")) for entry in value]
        case str() if (scale := scale_of(schema)) is not None:
            known = scale.whole(value)
            return value if known is None else known
        case _:
            return value


def _fitted_object(value: JsonObject, schema: JsonObject) -> Json:
    properties = _properties(schema)
    names = {normalized(name): name for name in properties}
    members = [(names.get(normalized(name), name), entry) for name, entry in value.items()]
    # `score` beside `Score`: two verdicts in one object.
    if len(dict(members)) < len(members):
        return None
    return {name: fitted(entry, properties.get(name)) for name, entry in members}


def _stated(text: str, form: JsonObject) -> JsonObject | Unread:
    deciding = _deciding(form)
    if deciding is None:
        return Unread()
    name, scale = deciding
    value = stated_value(text, name, scale)
    if isinstance(value, Ambiguous):
        return Unread(value.problem)
    return Unread() if value is None else _explained({name: value}, text, form)


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
    """Return whether a property that the form does not have is named as a verdict is, at any depth, and has another value."""
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
            if any(_on_scale(entry, scale) not in (None, verdict.get(name)) for entry in stated):
                return True
    return False


def _on_scale(value: Json, scale: Scale) -> Json:
    """Return the verdict that a single value is; `None` where it is none."""
    return scale.whole(str(value)) if isinstance(value, str | int | float) else None


def _explained(verdict: JsonObject, around: str, form: JsonObject) -> JsonObject:
    """Add the texts that the form requires and that decide nothing, such as the reasoning: the text around the verdict."""
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
    """Return the outermost JSON objects of a text and the text around them; `None` where a brace begins no object.

    A label inside of broken JSON may be one of its reasoning, so nothing of such a reply is read.
    """
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
