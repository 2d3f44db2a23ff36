"""Constructors that make dataclasses at the least cost.

The constructor that `dataclass` writes for a frozen class goes through `object.__setattr__` for each field: 3.5 us for
13 fields where an open class takes 1.2. And a factory such as `list[str]`, which tells type checkers what is in the
list, tries at each call to note that on the list, which fails: half a microsecond where `list` takes a tenth of it.
Dozens of these objects are made for each span of an agent, so what they cost to make is a good part of what a span
costs. Nothing else about the class changes: what was frozen stays frozen.
"""

from collections.abc import Callable
from dataclasses import MISSING, Field, fields
from typing import Any, TypeVar, cast, get_origin

_T = TypeVar("_T")
# So many fields are set one by one through their slots; for more the object is open while it is filled.
_FEW = 2


def quick(cls: type[_T]) -> type[_T]:
    """Give a dataclass with slots another constructor, with the same parameters; goes above `@dataclass`."""
    if hasattr(cls, "__post_init__"):
        raise TypeError(f"{cls.__name__} has more to do when it is made")
    dataclass_ = cast("Any", cls)  # typeshed has no public name for the type of a dataclass
    filled: tuple[Field[object], ...] = fields(dataclass_)
    names = [field.name for field in filled]
    scope: dict[str, object] = {"MISSING": MISSING}
    lines = [f"def __init__({_parameters(filled, scope)}):"]
    for field in filled:
        if field.default_factory is not MISSING:
            scope[f"make_{field.name}"] = get_origin(field.default_factory) or field.default_factory
            lines.append(f"    if {field.name} is MISSING: {field.name} = make_{field.name}()")
    if not dataclass_.__dataclass_params__.frozen:
        lines += [f"    self.{name} = {name}" for name in names]
    elif len(names) <= _FEW:
        scope.update({f"set_{name}": getattr(cls, name).__set__ for name in names})
        lines += [f"    set_{name}(self, {name})" for name in names]
    else:
        opened = type(cls.__name__, (), {"__slots__": tuple(names)})
        # Fails here where the classes differ in more than being frozen (generic ones do), and not when one is made.
        object.__setattr__(object.__new__(opened), "__class__", cls)
        scope.update(become=object.__setattr__, opened=opened, frozen=cls)
        lines += ["    become(self, '__class__', opened)", *(f"    self.{name} = {name}" for name in names)]
        lines.append("    self.__class__ = frozen")
    exec("\n".join(lines), scope)  # noqa: S102 - of names of fields alone, as `dataclass` itself does it
    made = cast("Callable[..., None]", scope["__init__"])  # that is what the text defines
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    cls.__init__ = made  # pyright: ignore[reportAttributeAccessIssue] - the parameters are those it has
    return cls


def _parameters(filled: tuple[Field[object], ...], scope: dict[str, object]) -> str:
    """Write the parameters; their defaults go into `scope`."""
    written = ["self"]
    for field in filled:
        if field.kw_only and "*" not in written:
            written.append("*")
        name = field.name
        if field.default is not MISSING:
            scope[f"default_{name}"] = field.default
            written.append(f"{name}=default_{name}")
        else:
            written.append(f"{name}=MISSING" if field.default_factory is not MISSING else name)
    return ", ".join(written)
