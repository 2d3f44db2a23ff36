"""Expressions in CEL, through Google's own runtime: checked and compiled once, evaluated within bounds.

The only module that needs the extra `toolgauge[cel]`; an entry point in `toolgauge.expressions`. The runtime stops after 10,000
steps of loops, at 32 levels and 100,000 characters. It keeps what each step makes until the end, so that operations that copy
or search values are rationed beside loops; `call_patterns` bounds the values.
"""

# The package ships stubs and lacks the marker that names them.
# pyright: reportMissingTypeStubs=false

import re
from collections.abc import Mapping

from cel_expr_python import cel

from toolgauge.model.errors import ConfigError, ExpressionError
from toolgauge.model.json import Json

_MAX_COMPLAINT = 200
# Without the ration: 30 GB for `all` within `all` around a sum of 25 texts of 10,000 characters.
_MAX_COPIES = 1
# One that does not end goes to the end: looked for again from each quote it would take the square of the length.
_LITERAL = re.compile(
    r"""(?s)"{3}.*?(?:"{3}|\Z)|'{3}.*?(?:'{3}|\Z)|"(?:[^"\\]|\\.)*(?:"|\\?\Z)|'(?:[^'\\]|\\.)*(?:'|\\?\Z)|//[^\n]*"""
)
_STEPS = re.compile(r"\.\s*(?:all|exists|exists_one|map|filter)\s*\(")
_LOOPS = "`all`, `exists`, `exists_one`, `map` and `filter`"
# 200 s for one with 1000 states, in 10,000 steps over 5000 characters.
_MATCHES = re.compile(r"\bmatches\s*\(")
_COPIES = re.compile(r"\+|\b(?:string|bytes)\s*\(")
# What the runtime reports besides may quote values.
_COMPLAINTS = {
    "NOT_FOUND": "it asks for a key that is not there",
    "UNKNOWN": "it has an operator or function that does not take such values",
    "INTERNAL": "it takes more than 10,000 steps",
}


class CelExpression:
    """A compiled expression that gives true or false."""

    __slots__ = ("_environment", "_program")

    def __init__(self, text: str, variables: tuple[str, ...]) -> None:
        """Compile; raise `ConfigError` for text that is not such an expression."""
        # Refuse expressions that could take gigabytes or minutes.
        bare = _LITERAL.sub('""', text)
        loops = len(_STEPS.findall(bare))
        if loops and len(_COPIES.findall(bare)) > _MAX_COPIES:
            raise ConfigError(f"has more than {_MAX_COPIES} of `+`, `string()` and `bytes()` beside {_LOOPS}")
        if loops > 1 and _MATCHES.search(bare):
            raise ConfigError(f"has `matches()` beside several of {_LOOPS}")
        self._environment = cel.NewEnv(variables=dict.fromkeys(variables, cel.Type.DYN))
        try:
            self._program = self._environment.compile(text)
        except RuntimeError as error:
            complaint = str(error).partition("\n")[0].removeprefix("INVALID_ARGUMENT: ").removeprefix("ERROR: <input>:")
            raise ConfigError(complaint[:_MAX_COMPLAINT]) from error
        if self._program.return_type() not in (cel.Type.BOOL, cel.Type.DYN):
            raise ConfigError(f"gives a value of type `{self._program.return_type().name()}`, not true or false")

    def holds(self, variables: Mapping[str, Json]) -> bool:
        """Evaluate; raise `ExpressionError` when that fails or gives something else."""
        try:
            result = self._program.eval(data=variables)
        except RuntimeError as error:
            raise ExpressionError(_complaint(str(error))) from error
        if result.type() == cel.Type.ERROR:
            raise ExpressionError(_complaint(str(result.value())))
        if result.type() != cel.Type.BOOL:
            raise ExpressionError("it gives neither true nor false")
        return bool(result.value())


def _complaint(status: str) -> str:
    return _COMPLAINTS.get(status.partition(":")[0], "it cannot be evaluated")
