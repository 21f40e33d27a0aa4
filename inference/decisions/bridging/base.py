"""What a bridge promises between a dialect and an endpoint that says the same in other words."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from inference.contract.events import Usage
from inference.decisions.bridging.pieces import Ending, Head, Piece

Document = Mapping[str, object]
Members = Mapping[str, msgspec.Raw]

ENGINE_MEMBERS = frozenset(
    (
        *("top_k", "min_p", "seed", "logit_bias", "presence_penalty", "frequency_penalty"),
        *("repetition_penalty", "length_penalty", "min_tokens", "ignore_eos", "stop_token_ids"),
        *("skip_special_tokens", "spaces_between_special_tokens", "include_stop_str_in_output"),
        *("bad_words", "allowed_token_ids", "truncate_prompt_tokens"),
        *("chat_template", "chat_template_kwargs", "add_generation_prompt", "add_special_tokens"),
        *("continue_final_message", "documents", "mm_processor_kwargs", "media_io_kwargs"),
        *("structured_outputs", "guided_json", "guided_regex", "guided_choice", "guided_grammar"),
        *("priority", "cache_salt", "kv_transfer_params", "thinking_token_budget"),
    )
)
"""Members that engines know of every dialect; their values go on byte for byte."""


@dataclass(frozen=True, slots=True)
class Said:
    """A request in other words: chat's, or those of a tokenizer.

    `members` are all but `model`, `stream` and what bounds the answer, which is
    `output_tokens_max`. `told` is what the dialect's answer needs to know of the request.
    """

    members: Mapping[str, object]
    output_tokens_max: int | None = None
    told: Document = field(default_factory=dict)


class Telling(Protocol):
    """One streamed answer, told in the dialect's events as chat's pieces come.

    `next_number` is that of an event which would follow, where events have numbers.
    """

    next_number: int

    def begin(self, head: Head, usage: Usage | None) -> list[Document]:
        """The events before any piece; what is known of the usage so early, mostly nothing."""

    def add(self, piece: Piece) -> list[Document]:
        """The events of a piece."""

    def end(self, ending: Ending, usage: Usage | None) -> list[Document]:
        """The events that end the answer."""


class Say(Protocol):
    """Says a dialect's request in another endpoint's words, or raises Untranslatable.

    `reasoning` is the member of a message in which the server knows earlier thoughts.
    """

    def __call__(self, members: Members, *, reasoning: str) -> Said: ...


class Tell(Protocol):
    """Tells a whole answer in the dialect's words, or raises Unreadable.

    `answer_id` is what it is called after, `at` (seconds since the epoch) when it was asked for.
    """

    def __call__(self, body: bytes, *, answer_id: str, at: int, said: Said) -> Document: ...


@dataclass(frozen=True, slots=True)
class Bridge:
    """How one dialect is said in other words and told back, whole or, by a `telling`, bit by bit.

    All of it is pure: equal calls give equal values. What is never streamed has no `telling`.
    """

    say: Say
    tell: Tell
    telling: Callable[[Said], Telling] | None = None
