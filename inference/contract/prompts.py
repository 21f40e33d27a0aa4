"""Templates of prompts, which gateways fill in."""

from dataclasses import dataclass

from inference.contract.kinds import PromptRole


@dataclass(frozen=True, slots=True)
class PromptMessage:
    """One message. `{{name}}` in its content is where the variable of that name goes."""

    role: PromptRole
    content: str


@dataclass(frozen=True, slots=True)
class PromptRecord:
    """One version of a prompt, which is never changed: an edit is another version, from 1.

    `name` is the prompt's. The version that `is_current` is taken where none is asked for.
    """

    id: str
    organisation_id: str
    prompt_id: str
    name: str
    version: int
    messages: tuple[PromptMessage, ...]
    is_current: bool = False
