"""What a client of HTTP accepts, by `Accept` and its sisters."""


def preferences(header: str) -> dict[str, float]:
    """Return the quality of each name in such a header, 1 where none is written."""
    found: dict[str, float] = {}
    for entry in header.split(","):
        name, *parameters = (part.strip().lower() for part in entry.split(";"))
        found[name] = max(found.get(name, 0.0), _quality(parameters))
    return found


def accepts_gzip(accept_encoding: str) -> bool:
    """Return whether an answer may be compressed."""
    return preferences(accept_encoding).get("gzip", 0.0) > 0


def _quality(parameters: list[str]) -> float:
    for parameter in parameters:
        key, _, value = parameter.partition("=")
        if key.strip() == "q":
            try:
                return float(value)
            except ValueError:
                return 0.0
    return 1.0
