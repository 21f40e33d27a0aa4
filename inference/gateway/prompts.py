"""Prompts that a chat request asks for by name, or gets by its variant, put before its messages."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import msgspec

from inference.contract.kinds import Endpoint
from inference.contract.snapshot import ConfigSnapshot, PromptRecord
from inference.contract.values import changed
from inference.decisions.cost import bound_prompt_tokens
from inference.decisions.facts import RequestFacts
from inference.decisions.groundwork import Way
from inference.decisions.plan import Plan, Refusal
from inference.decisions.prompts import MissingVariables, Template, find_prompt, render
from inference.errors import InvalidRequest
from inference.gateway.members import Members, join_members, raw_members
from inference.gateway.schemas import BYTES_PER_TOKEN, InferenceRequest, parse_request

if TYPE_CHECKING:
    from inference.gateway.exchange import Exchange

_OBJECT = ord("{")
_encode = msgspec.json.Encoder().encode


class _Asked(msgspec.Struct, forbid_unknown_fields=True):
    """The member `prompt` of a chat request."""

    id: str | None = None
    name: str | None = None
    version: int | None = None
    variables: Mapping[str, str | int | float | bool] = {}


_read = msgspec.json.Decoder(_Asked).decode

_NOTHING = Template({}, None)


def filled(exchange: "Exchange", request: InferenceRequest) -> InferenceRequest:
    """The chat request with the prompt it asks for before its own messages, or InvalidRequest.

    A text as `prompt` asks for none: it is the caller's to know what it is for.
    """
    raw = request.members["prompt"]
    if memoryview(raw)[0] != _OBJECT:
        return request
    assert exchange.identity is not None
    assert exchange.snapshot is not None
    asked = _asked(raw)
    record = find_prompt(
        exchange.snapshot,
        exchange.identity.organisation_id,
        asked.id or asked.name or "",
        asked.version,
    )
    if record is None:
        raise InvalidRequest("There is no such prompt, or no such version.", param="prompt")
    variables = {name: _text(value) for name, value in asked.variables.items()}
    own = bytes(request.members["messages"])
    members = {name: one for name, one in request.members.items() if name != "prompt"}
    members["messages"] = _before(record, variables, own)
    found = parse_request(Endpoint.CHAT, join_members(members))
    facts = changed(found.facts, prompt_version_id=record.id)
    return changed(found, facts=facts, template=Template(variables, own, bytes(raw)))


def as_asked(request: InferenceRequest) -> Members:
    """The members of a body as the caller wrote it, before a prompt was put in."""
    template = request.template
    if template is None or template.own is None:
        return request.members
    own = {"messages": template.own, "prompt": template.asked}
    return {**request.members, **raw_members(own)}


def with_room(
    snapshot: ConfigSnapshot, way: Way, request: InferenceRequest, facts: RequestFacts
) -> RequestFacts:
    """The facts with room for the longest prompt that an experiment may give the request."""
    template = request.template or _NOTHING
    longest, most = 0, 0
    for prompt in _prompts_of(snapshot, way):
        size = sum(len(one.content.encode()) for one in prompt.messages)
        size += sum(
            one.content.count(name) * len(value.encode())
            for one in prompt.messages
            for name, value in template.variables.items()
        )
        longest = max(longest, size)
        most = max(most, bound_prompt_tokens(size, len(prompt.messages)))
    if not most:
        return facts
    return changed(
        facts,
        prompt_tokens=facts.prompt_tokens + longest // BYTES_PER_TOKEN,
        prompt_tokens_max=facts.prompt_tokens_max + most,
    )


def with_prompt(
    snapshot: ConfigSnapshot, request: InferenceRequest, version_id: str
) -> InferenceRequest:
    """The request with the prompt of its variant in place of the one it asks for, or InvalidRequest
    if that needs what the request doesn't have.
    """
    record = snapshot.prompts.get(version_id)
    if record is None:
        return request
    template = request.template or _NOTHING
    own = bytes(request.members["messages"]) if template.own is None else template.own
    messages = _before(record, template.variables, own)
    return changed(request, members={**request.members, "messages": messages})


def check_variables(
    exchange: "Exchange", decided: Plan | Refusal, request: InferenceRequest
) -> None:
    """Refuse a request that lacks variables of the prompt that it would get, before it is sent."""
    assert exchange.snapshot is not None
    for one in decided.assignments:
        if one.variant is not None and one.variant.prompt_version_id is not None:
            with_prompt(exchange.snapshot, request, one.variant.prompt_version_id)


def _asked(raw: msgspec.Raw) -> _Asked:
    try:
        asked = _read(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidRequest(f"`prompt` is not valid: {error}.", param="prompt") from error
    if (asked.id is None) == (asked.name is None):
        raise InvalidRequest("`prompt` has an `id` or a `name`.", param="prompt")
    return asked


def _text(value: str | int | float | bool) -> str:
    """A variable as it is written: numbers and truths as JSON has them."""
    return value if isinstance(value, str) else _encode(value).decode()


def _before(record: PromptRecord, variables: Mapping[str, str], own: bytes) -> msgspec.Raw:
    """The messages of a prompt, and then the caller's own."""
    try:
        messages = _encode(render(record, variables))
    except MissingVariables as missing:
        message = f"The prompt `{record.name}` needs the variables: {missing}."
        raise InvalidRequest(message, param="prompt.variables") from missing
    theirs = own.strip()[1:-1].strip()
    return msgspec.Raw(b"%b,%b]" % (messages[:-1], theirs) if theirs else messages)


def _prompts_of(snapshot: ConfigSnapshot, way: Way) -> Iterable[PromptRecord]:
    for experiment in way.experiments:
        for variant in experiment.variants:
            record = snapshot.prompts.get(variant.prompt_version_id or "")
            if record is not None:
                yield record
