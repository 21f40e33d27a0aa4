"""The data plane's vocabularies as choices; callable, so that a new kind needs no migration."""

from enum import StrEnum

from inference.contract.kinds import (
    Accounting,
    Backend,
    PoolPower,
    Provisioner,
    Scope,
    Strategy,
    Task,
)

Choices = list[tuple[str, str]]


def choices_of(kind: type[StrEnum]) -> Choices:
    """Each member as value and label."""
    return [(member.value, member.value.replace("_", " ")) for member in kind]


def tasks() -> Choices:
    return choices_of(Task)


def provisioners() -> Choices:
    return choices_of(Provisioner)


def backends() -> Choices:
    return choices_of(Backend)


def powers() -> Choices:
    return choices_of(PoolPower)


def strategies() -> Choices:
    return choices_of(Strategy)


def accountings() -> Choices:
    return choices_of(Accounting)


def scopes() -> Choices:
    return choices_of(Scope)
