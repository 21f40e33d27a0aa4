"""How many tokens a conversation of Anthropic's is, asked of vLLM's tokenizer."""

import msgspec

from inference.decisions.bridging.base import ENGINE_MEMBERS, Document, Members, Said
from inference.decisions.bridging.documents import decoded
from inference.decisions.bridging.messages import INDEX, conversation_of, tools_of
from inference.decisions.bridging.pieces import Unreadable

_TEMPLATE = ENGINE_MEMBERS & {"chat_template", "chat_template_kwargs", "mm_processor_kwargs"}


class _Tokens(msgspec.Struct):
    count: int


_decode = msgspec.json.Decoder(_Tokens).decode


def say_count(members: Members, *, reasoning: str) -> Said:
    """A conversation to be counted, as a chat to be tokenized; raises Untranslatable.

    A choice of tools, and what bounds or shapes the answer, is no token of it.
    """
    own = {name: raw for name, raw in members.items() if name not in _TEMPLATE}
    fields = decoded(own, index=INDEX)
    fields.pass_over("model", "cache_control", "tool_choice", "output_config")
    fields.only_as("thinking", {"type": "disabled"})
    conversation = conversation_of(fields, reasoning=reasoning, goes_on=True)
    said: dict[str, object] = {"messages": conversation}
    said |= tools_of(fields)
    fields.end()
    return Said(said | {name: members[name] for name in _TEMPLATE if name in members})


def tell_count(body: bytes, *, answer_id: str, at: int, said: Said) -> Document:
    """The count of what was tokenized; raises Unreadable."""
    try:
        return {"input_tokens": _decode(body).count}
    except (msgspec.DecodeError, RecursionError) as error:
        raise Unreadable from error
