"""Attributes that are computed when they are first used."""

from __future__ import annotations

import pickle

from ultraspec.storage.cached import cached_attribute


class Example:
    def __init__(self):
        self.calls = 0

    @cached_attribute
    def value(self):
        """What is computed."""
        self.calls += 1
        return [self.calls]


def test_a_value_is_computed_once_and_stored_in_the_instance():
    one, other = Example(), Example()
    assert "value" not in vars(one)
    assert one.value is one.value
    assert one.calls == 1
    assert vars(one)["value"] == [1]
    assert other.calls == 0
    copy = pickle.loads(pickle.dumps(one))
    assert copy.value == [1]
    assert copy.calls == 1


def test_it_can_be_set_and_deleted_as_any_attribute():
    example = Example()
    example.value = 7
    assert example.value == 7
    del example.value
    assert example.value == [1]


def test_the_class_shows_its_documentation():
    assert isinstance(Example.value, cached_attribute)
    assert Example.value.__doc__ == "What is computed."
