"""A property that is found once for each object."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

_T = TypeVar("_T")


class once(Generic[_T]):  # noqa: N801 (a decorator)
    """Finds the value when it is first asked for; `functools.cached_property` takes a lock, and three times as long."""

    def __init__(self, find: Callable[[Any], _T]) -> None:
        self._find, self.__doc__ = find, find.__doc__

    def __get__(self, one: object, owner: type | None = None) -> _T:
        """Find the value; from then on Python takes it from the object itself."""
        found = one.__dict__[self._find.__name__] = self._find(one)
        return found
