"""Libraries that take megabytes and that an idle process does without: each is loaded when it is first used."""

from importlib import import_module

NAMES = ("jinja2", "jsonschema_rs", "rapidfuzz")  # as in the stub, for type checkers


def __getattr__(name: str) -> object:
    """Load one of the libraries; Python asks once each."""
    if name not in NAMES:
        raise AttributeError(f"module `{__name__}` has no attribute `{name}`")
    globals()[name] = library = import_module(name)
    return library
