"""`arguments_schema`: do the arguments keep to the JSON Schema of the tool on offer? Needs no reference."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cached_property, lru_cache
from typing import Annotated, ClassVar, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace
from pydantic import Field, JsonValue, field_validator

from toolgauge.model.content import Unparsed
from toolgauge.model.errors import SchemaError
from toolgauge.model.json import JsonObject
from toolgauge.model.judging import Judged
from toolgauge.model.observations import ToolDefinition
from toolgauge.model.outcomes import Difference, Level, NotEvaluated, Outcome, Scored, Side
from toolgauge.model.ports import Needs
from toolgauge.model.records import SpanRef
from toolgauge.model.trajectory import ToolCall
from toolgauge.recognize.values import is_too_large
from toolgauge.score.facts import Facts, FactsEvaluator
from toolgauge.score.selection import has_run_well, nothing_to_judge, readable_arguments, shown, unseen_arguments
from toolgauge.score.tool_offers import REGISTERED, RunOffers
from toolgauge.score.tool_schemas import (
    Steps,
    ToolSchema,
    ToolSchemas,
    UnknownArguments,
    complaint,
    difference,
    is_masked,
    valid_share,
    where_in,
)

# Less than a second for all calls of a trajectory that do not plainly fit.
_STEPS = 300_000
_MAX_SHOWN, _MAX_SCHEMAS, _MAX_VALID = 5, 500, 512
_WRITTEN_HERE = " (of the criterion)"
_MAX_DIFFERENCES = 20
# Arguments that break more rules than this are wrong from end to end.
_MAX_VIOLATIONS = 1000
_WrittenByTool: TypeAlias = dict[str, dict[str, JsonValue]]
# `NotEvaluated` for a tool without a schema, or with a schema that cannot be used.
_Schema: TypeAlias = ToolSchema | NotEvaluated


class ArgumentsSchema(FactsEvaluator):
    """The share of a call's arguments that are valid against the JSON Schema of its tool; 1 exactly when all are.

    Violations that the tool accepted lower the value and fail nothing, unless `accepted_violations: fail`.
    """

    version: ClassVar[str] = "2"
    level: ClassVar[Level] = "call"
    needs: ClassVar[Needs] = Needs(reference="none", recent_offer=True, whole=False)
    judges_every_answer: ClassVar[bool] = True

    # Whether an argument that the schema does not name fails, where the schema does not say whether others are allowed.
    unknown_arguments: UnknownArguments = "fail"
    # Whether violations of a call that the tool took and ran without an error or an error text fail. Violations of `schemas` always do.
    accepted_violations: Literal["pass", "fail"] = "pass"
    # By name of the tool: take the place of the schemas on offer. Tools without one here are not judged.
    schemas: Annotated[_WrittenByTool, Field(min_length=1, max_length=_MAX_SCHEMAS)] | None = None

    @field_validator("schemas")
    @classmethod
    def _can_be_used(cls, schemas: _WrittenByTool | None) -> _WrittenByTool | None:
        for name, schema in (schemas or {}).items():
            try:
                ToolSchema(schema, "fail")
            except SchemaError as error:
                raise ValueError(f"has a schema of {shown(name)} that cannot be used: {error}") from error
        return schemas

    @cached_property
    def _schemas(self) -> ToolSchemas:
        return ToolSchemas(self.unknown_arguments)

    def outcomes(self, facts: Facts) -> Iterator[Judged]:
        """Yield one outcome a call."""
        calls = self.calls(facts.trajectory)
        if not calls:
            yield None, nothing_to_judge(facts.trajectory)
            return
        steps = Steps(_STEPS)
        checks: dict[tuple[str, SpanRef | None, int | None], _Check] = {}
        # Rule: a tool that ran without an error, and whose result does not read like one, accepted the violation of its schema;
        # it knows nothing of the criterion's own.
        may_accept = self.accepted_violations == "pass" and self.schemas is None
        for call in calls:
            # By identity: the spans of a tool repeat the same object.
            key = call.name, call.run, id(call.definition.parameters) if call.definition is not None else None
            check = checks.get(key)
            if check is None:
                check = checks[key] = self._check(call, facts.offers)
            schema = check.schema
            arguments = readable_arguments(call)
            if arguments is None:
                yield call, unseen_arguments(call) or check.free_text or _unreadable(call)
            elif isinstance(schema, NotEvaluated):
                yield call, schema
            else:
                outcome = _outcome(call.name, arguments, schema, steps, check)
                is_accepted = may_accept and has_run_well(call) and call.order not in facts.error_texts.kinds
                if is_accepted and isinstance(outcome, Scored):
                    outcome = check.accepted if outcome is check.valid else replace(outcome, is_exempt=True)
                yield call, outcome

    def _definition(self, call: ToolCall, offers: RunOffers) -> tuple[ToolDefinition | NotEvaluated, str]:
        """Return the definition of the called tool, one with a schema where there is any, and a remark about its origin."""
        name = call.name
        if self.schemas is not None:
            schema = self.schemas.get(name)
            if schema is not None:
                return ToolDefinition(name=name, parameters=schema), _WRITTEN_HERE
            return NotEvaluated(reason="no_schema", explanation=f"the criterion has no schema of {shown(name)}"), ""
        # Rule: the schema on the tool's own span counts, else that of the run's offer, else the registered one.
        best = None if call.definition is None else (call.definition, "")
        offered = offers.of(call)
        for offer in offered:
            if best is not None and best[0].parameters is not None:
                break
            definition = offer.tools.get(name)
            if definition is not None and (best is None or definition.parameters is not None):
                best = definition, offer.remark
        if best is not None:
            return best
        if not offered:
            return NotEvaluated(reason="no_tool_offer", explanation="the tools on offer were not recorded"), ""
        where = "registered" if offered[0].remark == REGISTERED else "on offer"
        return NotEvaluated(reason="no_schema", explanation=f"{shown(name)} was not among the tools {where}"), ""

    def _check(self, call: ToolCall, offers: RunOffers) -> "_Check":
        definition, remark = self._definition(call, offers)
        name = call.name
        schema: _Schema
        free_text = None
        if isinstance(definition, NotEvaluated):
            schema = definition
        elif definition.parameters is None:
            schema = NotEvaluated(reason="no_schema", explanation=f"{shown(name)} was on offer without a schema")
        else:
            try:
                schema = self._schemas.of(definition.parameters)
            except SchemaError as error:
                schema = _unusable(name, error)
        if isinstance(definition, ToolDefinition) and definition.takes_text:
            explanation = f"{shown(name)} takes free text, which has no schema"
            free_text = NotEvaluated(reason="no_schema", explanation=explanation)
        return _Check(schema, *_valid(shown(name), remark), remark, free_text)


class _Check(Struct, frozen=True, gc=False):
    """The schema for the calls of one tool in one run, the outcome of valid calls, and of calls that the tool accepted."""

    schema: _Schema
    valid: Scored
    accepted: Scored
    remark: str
    # The outcome of arguments that are text, where the tool takes text.
    free_text: NotEvaluated | None


# Agents call the same few tools all day long.
@lru_cache(maxsize=_MAX_VALID)
def _valid(shown_name: str, remarks: str) -> tuple[Scored, Scored]:
    explanation = f"the arguments of {shown_name} keep to its schema{remarks}"
    return Scored(1.0, explanation), Scored(1.0, explanation, is_exempt=True)


def _unusable(name: str, error: SchemaError) -> NotEvaluated:
    explanation = f"the schema of {shown(name)} cannot be used: {shown(str(error))[1:-1]}"
    return NotEvaluated(reason="no_schema", explanation=explanation)


def _unreadable(call: ToolCall) -> Outcome:
    """Judge arguments other than an object: broken JSON is the model's fault, everything else the producer's."""
    name = shown(call.name)
    text = call.arguments.text if isinstance(call.arguments, Unparsed) else ""
    start = text.lstrip()
    problem, flaw = "", ""
    if is_too_large(text):
        flaw = "are too large to read"
    elif not start.startswith("{"):
        kind = "a list" if start.startswith("[") else "text"
        flaw = f"were recorded as {kind}, not as a JSON object"
    else:
        try:
            json.loads(text)
            flaw = "are too large to read"
        except json.JSONDecodeError as error:
            problem = f"{error.msg[:1].lower()}{error.msg[1:].removesuffix(' at')} at character {error.pos}"
            # Two values in a row are two calls that a recorder of streamed output joined.
            if error.msg == "Extra data" and text[error.pos :].startswith("{"):
                flaw = "are several JSON values in a row: calls that the recorder joined"
        except (ValueError, RecursionError):
            problem = "nested too deeply"
    if flaw:
        return NotEvaluated(reason="unparsable", explanation=f"the arguments of {name} {flaw}")
    difference = Difference(where=f"{call.name} arguments", rule="unparsable", actual=Side(value=text))
    return Scored(0.0, f"the arguments of {name} are no valid JSON: {problem}", differences=(difference,))


def _outcome(name: str, arguments: JsonObject, schema: ToolSchema, steps: Steps, check: _Check) -> Outcome:
    try:
        found = schema.violations(arguments, steps)[:_MAX_VIOLATIONS]
    except SchemaError as error:
        return _unusable(name, error)
    if not found and not schema.skipped_patterns:
        return check.valid
    patterns = schema.skipped_patterns
    unchecked = f"; {patterns} pattern{'s' if patterns > 1 else ''} could not be checked" if patterns else ""
    if not found:
        return _valid(shown(name), check.remark + unchecked)[0]
    # A value or a name that a redaction processor masked breaks no rule: the hidden one may be valid.
    broken = [violation for violation in found if not is_masked(violation, arguments)]
    if not broken:
        places = ", ".join([shown(where_in("", violation)) for violation in found[:_MAX_SHOWN]])
        explanation = f"the values of {shown(name)} that break its schema were redacted: {places}"
        return NotEvaluated(reason="redacted", explanation=explanation)
    complaints = map(complaint, broken[:_MAX_SHOWN])
    more = f"; {len(broken) - _MAX_SHOWN} more" if len(broken) > _MAX_SHOWN else ""
    parts: Mapping[str, float] = Counter(violation.kind for violation in broken)
    return Scored(
        value=valid_share(arguments, broken) if len(found) < _MAX_VIOLATIONS else 0.0,
        explanation=f"the arguments of {shown(name)} break its schema{check.remark}: {'; '.join(complaints)}{more}{unchecked}",
        parts=parts,
        differences=tuple([difference(name, violation) for violation in broken[:_MAX_DIFFERENCES]]),
    )
