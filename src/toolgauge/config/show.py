"""A configuration as YAML with every default written out and without secrets, and other values as YAML."""

import yaml

from toolgauge.config.model import Config
from toolgauge.config.parse import CORE_SCALARS
from toolgauge.model.json import Json


class _Dumper(yaml.SafeDumper):
    """Quotes what our reader would take for something else than a text."""

    yaml_implicit_resolvers = {None: list(CORE_SCALARS)}  # noqa: RUF012 (PyYAML wants a plain class attribute)

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 (PyYAML's signature)
        """Write equal values out in full."""
        return True


def shown(config: Config) -> str:
    """Write the configuration so that reading it again gives the same, secrets aside."""
    values: Json = config.model_dump(mode="json")
    return as_yaml(values)


def as_yaml(values: Json) -> str:
    """Write values so that reading them as configuration gives the same."""
    return yaml.dump(_escaped(values), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)


def _escaped(value: Json) -> Json:
    """Protect dollar signs from being taken for variables."""
    match value:
        case str():
            return value.replace("$", "$$")
        case dict():
            return {key: _escaped(entry) for key, entry in value.items()}
        case list():
            return [_escaped(item) for item in value]
        case _:
            return value
