"""Prompts filled in: variables go where their names stand, and that is all a template can do."""

import re
from collections.abc import Mapping

from inference.contract.params import VARIABLE_NAME
from inference.contract.snapshot import ConfigSnapshot, PromptRecord
from inference.contract.values import frozen

_PLACE = re.compile(r"\{\{\s*(" + VARIABLE_NAME + r")\s*\}\}")

Variables = Mapping[str, str]


@frozen
class Template:
    """What a request's prompt is filled with, and the caller's `own` messages after it, in JSON.

    `asked` is the member that asked for the prompt, as the caller wrote it.
    """

    variables: Variables
    own: bytes | None
    asked: bytes = b""


class MissingVariables(Exception):
    """A prompt needs variables that it wasn't given: their `names`, in alphabetical order."""

    def __init__(self, names: tuple[str, ...]) -> None:
        super().__init__(", ".join(names))
        self.names = names


def variables_of(prompt: PromptRecord) -> frozenset[str]:
    """The names of the variables that a prompt needs."""
    return frozenset(name for one in prompt.messages for name in _PLACE.findall(one.content))


def has_stray_braces(text: str) -> bool:
    """Whether a template has two braces that are no place of a variable: a slip, most likely."""
    rest = _PLACE.sub("", text)
    return "{{" in rest or "}}" in rest


def render(prompt: PromptRecord, variables: Variables) -> list[dict[str, str]]:
    """The messages of a prompt; raises MissingVariables. Variables it doesn't need are ignored.

    What a variable holds is text and is never read as a template.
    """
    missing = variables_of(prompt) - variables.keys()
    if missing:
        raise MissingVariables(tuple(sorted(missing)))
    return [
        {
            "role": one.role.value,
            "content": _PLACE.sub(lambda found: variables[found[1]], one.content),
        }
        for one in prompt.messages
    ]


def find_prompt(
    snapshot: ConfigSnapshot, organisation_id: str, named: str, version: int | None
) -> PromptRecord | None:
    """A version of the prompt of this id or name, or the current one; None if there is none."""
    return snapshot.filed.get((organisation_id, named), {}).get(version)
