"""Cross-origin requests of browsers (Fetch standard, "CORS protocol"): off unless origins are allowed."""

from collections.abc import Sequence
from dataclasses import dataclass

_SAFE_HEADERS = ("Accept", "Content-Type", "X-Requested-With")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cors:
    """Who may send from a page. An origin may hold one `*`; `max_age_s` is how long a browser may remember the answer."""

    allowed_origins: Sequence[str]
    allowed_headers: Sequence[str] = ()
    max_age_s: int = 0

    def allows(self, origin: str) -> bool:
        """Tell whether pages of the origin may send."""
        return any(_matches(pattern.lower(), origin.lower()) for pattern in self.allowed_origins)

    def answer_headers(self, origin: str) -> dict[str, str]:
        """Name the headers of an answer to a page that may send."""
        return {"Access-Control-Allow-Origin": origin, "Vary": "Origin"}

    def preflight_headers(self, origin: str) -> dict[str, str]:
        """Name the headers of the answer to the question that comes before a request."""
        headers = self.answer_headers(origin)
        headers["Access-Control-Allow-Methods"] = "POST"
        headers["Access-Control-Allow-Headers"] = ", ".join((*_SAFE_HEADERS, *self.allowed_headers))
        if self.max_age_s:
            headers["Access-Control-Max-Age"] = str(self.max_age_s)
        return headers


def _matches(pattern: str, origin: str) -> bool:
    start, star, end = pattern.partition("*")
    if not star:
        return pattern == origin
    return len(origin) >= len(start) + len(end) and origin.startswith(start) and origin.endswith(end)
