import jinja2 as jinja2
import jsonschema_rs as jsonschema_rs
import rapidfuzz as rapidfuzz

NAMES: tuple[str, ...]
