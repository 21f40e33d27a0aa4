"""How objects are declared that every request makes and changes."""

import dis
from types import FunctionType
from typing import TypeVar

T = TypeVar("T")

MOST_NAMES = 29
"""So many CPython 3.11 keeps in one row, for all instances of a class together."""


def shaped(cls: type[T]) -> type[T]:
    """Have all instances keep their attributes in one row in place of a `dict` each.

    CPython does so for the names that the first few instances of a class have set; whatever is set
    later for the first time turns its instance's row into a `dict`, which is made and read more
    slowly. So all of them are set here once: those that `__init__` sets, and those with a default.
    Of more than `MOST_NAMES` the last ones, which should be the rarest, are left out.
    """
    first = object.__new__(cls)
    for name in names_of(cls)[:MOST_NAMES]:
        setattr(first, name, None)
    return cls


def names_of(cls: type) -> tuple[str, ...]:
    """The attributes of a class's instances, in the order in which they are set."""
    begin = vars(cls)["__init__"]
    set_first = [one.argval for one in dis.get_instructions(begin) if one.opname == "STORE_ATTR"]
    later = [
        name
        for name, value in vars(cls).items()
        if not (name.startswith("__") or isinstance(value, (FunctionType, property)))
    ]
    return tuple(dict.fromkeys((*set_first, *later, *vars(cls).get("__annotations__", ()))))
