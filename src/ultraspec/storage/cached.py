"""Attributes that are computed when they are first used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class cached_attribute(Generic[T]):
    """A property that is computed once and stored in the instance's dictionary.

    Before Python 3.12, `functools.cached_property` holds a lock while it computes: a process that is forked meanwhile
    would wait for it forever. Here two threads may compute the same value at the same time, which is harmless.
    """

    def __init__(self, function: Callable[[Any], T]) -> None:
        self._function = function
        self.__doc__ = function.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> cached_attribute[T]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> T | cached_attribute[T]:
        if instance is None:
            return self
        value = self._function(instance)
        instance.__dict__[self._name] = value
        return value
