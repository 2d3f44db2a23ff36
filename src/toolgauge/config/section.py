"""What all sections of the configuration have in common."""

from pydantic import BaseModel, ConfigDict, model_validator


class Section(BaseModel):
    """A mapping with known keys only; an empty one (null) has its defaults."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _empty_has_defaults(cls, value: object) -> object:
        return {} if value is None else value
