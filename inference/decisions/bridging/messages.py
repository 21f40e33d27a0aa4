"""Anthropic's messages, in the words of chat."""

from collections.abc import Mapping

import msgspec

from inference.decisions.bridging.base import ENGINE_MEMBERS, Members, Said
from inference.decisions.bridging.conversation import Conversation, Part, text_part
from inference.decisions.bridging.documents import Fields, Node, decoded

INDEX = ".{}"
"""How Anthropic's callers write a place in a list."""

# What asks a server to keep or to hurry something; the answer is the same without.
_HINTS = ("cache_control", "eager_input_streaming")

_CHOICES = {"auto": "auto", "any": "required", "none": "none"}

ERROR_MARK = "Error: "
"""Chat can't say that a tool failed but in the text of its result."""


def say_message(members: Members, *, reasoning: str) -> Said:
    """A request for a message, in chat's words; raises Untranslatable."""
    own = {name: raw for name, raw in members.items() if name not in ENGINE_MEMBERS}
    fields = decoded(own, index=INDEX)
    fields.pass_over("model", "stream", *_HINTS)
    most = fields.need("max_tokens")
    goes_on = bytes(members.get("continue_final_message", b"")) == b"true"
    conversation = conversation_of(fields, reasoning=reasoning, goes_on=goes_on)
    said: dict[str, object] = {"messages": conversation}
    stops = fields.take("stop_sequences")
    stop = [] if stops is None else stops.texts()
    if stop:
        said["stop"] = stop
    for name in ("temperature", "top_p"):
        if (given := fields.take(name)) is not None:
            said[name] = given.value
    said |= tools_of(fields)
    if (choice := fields.take("tool_choice")) is not None:
        said |= _tool_choice(choice)
    said |= _metadata(fields)
    said |= _output_config(fields)
    _check_usual(fields)
    fields.end()
    said |= {name: raw for name, raw in members.items() if name in ENGINE_MEMBERS}
    return Said(said, _bound(most), {"stop_sequences": stop})


def _bound(most: Node) -> int:
    if isinstance(most.value, bool) or not isinstance(most.value, int) or most.value < 1:
        raise most.wrong("must be a whole number above 0")
    return most.value


def _check_usual(fields: Fields) -> None:
    """Take what may be said as long as it says what is so anyway."""
    fields.only_as("service_tier", "auto")
    fields.only_as("speed", "standard")
    thinking = fields.take("thinking")
    if thinking is not None and thinking.value != {"type": "disabled"}:
        raise thinking.refused("which has no budget for thoughts; try `output_config.effort`")


def _metadata(fields: Fields) -> dict[str, object]:
    node = fields.take("metadata")
    if node is None:
        return {}
    inner = node.fields()
    user = inner.text("user_id")
    inner.end()
    return {} if user is None else {"user": user}


def _output_config(fields: Fields) -> dict[str, object]:
    node = fields.take("output_config")
    if node is None:
        return {}
    inner, said = node.fields(), dict[str, object]()
    effort = inner.text("effort")
    if effort is not None:
        said["reasoning_effort"] = effort
    shape = inner.take("format")
    if shape is not None:
        described = shape.fields()
        kind = described.need("type")
        if kind.value != "json_schema":
            raise kind.refused()
        schema = {"name": "output", "schema": described.need("schema").value, "strict": True}
        described.end()
        said["response_format"] = {"type": "json_schema", "json_schema": schema}
    inner.end()
    return said


def tools_of(fields: Fields) -> dict[str, object]:
    """The tools of a request, if it has some."""
    tools = fields.take("tools")
    return {} if tools is None else {"tools": [_tool(one) for one in tools.items()]}


def _tool(node: Node) -> Part:
    fields = node.fields()
    fields.pass_over(*_HINTS)
    fields.only_as("type", "custom")
    fields.only_as("defer_loading", False)
    fields.only_as("allowed_callers", ["direct"])
    function: dict[str, object] = {"name": fields.need("name").text()}
    if (description := fields.text("description")) is not None:
        function["description"] = description
    function["parameters"] = fields.need("input_schema").value
    if (strict := fields.take("strict")) is not None:
        function["strict"] = strict.flag()
    fields.end()
    return {"type": "function", "function": function}


def _tool_choice(node: Node) -> dict[str, object]:
    fields = node.fields()
    kind = fields.need("type")
    said: dict[str, object] = {}
    if kind.value == "tool":
        name = fields.need("name").text()
        said["tool_choice"] = {"type": "function", "function": {"name": name}}
    elif kind.text() in _CHOICES:
        said["tool_choice"] = _CHOICES[kind.text()]
    else:
        raise kind.refused()
    alone = fields.take("disable_parallel_tool_use")
    if alone is not None:
        said["parallel_tool_calls"] = not alone.flag()
    fields.end()
    return said


def conversation_of(fields: Fields, *, reasoning: str, goes_on: bool) -> list[Mapping[str, object]]:
    """The conversation of a request, its system prompt first.

    Unless the engine was told so and `goes_on`, chat begins a turn after an assistant's last words,
    where Anthropic's servers would go on with them.
    """
    conversation = Conversation(reasoning=reasoning)
    system = fields.take("system")
    if system is not None:
        conversation.say("system", _texts(system), system)
    messages = fields.need("messages").items()
    for message in messages:
        _add_message(conversation, message)
    told = list(conversation.end())
    if messages and not goes_on and told[-1]["role"] == "assistant":
        raise messages[-1].refused("which has no way to go on with what the assistant began")
    return told


def _add_message(conversation: Conversation, message: Node) -> None:
    fields = message.fields()
    role, content = fields.need("role"), fields.need("content")
    fields.end()
    match role.value:
        case "user":
            _add_user(conversation, content)
        case "assistant":
            _add_assistant(conversation, content)
        case "system":
            conversation.say("system", _texts(content), content)
        case _:
            raise role.wrong("must be user or assistant")


def _add_user(conversation: Conversation, content: Node) -> None:
    """Results of tools come first, all of them; what else the user says is a message after them."""
    parts: list[Part] = []
    said: Node | None = None
    for block in _blocks(content):
        fields = block.fields()
        kind = fields.need("type")
        if kind.value == "tool_result":
            if said is not None:
                raise block.wrong("must come before everything else in its message")
            _add_result(conversation, fields)
            continue
        said = said or block
        parts.append(_user_part(kind, fields))
    if said is not None or content.value in ("", []):
        conversation.say("user", parts, said or content)


def _add_result(conversation: Conversation, fields: Fields) -> None:
    call_id = fields.need("tool_use_id")
    fields.pass_over(*_HINTS)
    has_failed = (failed := fields.take("is_error")) is not None and failed.flag()
    content = fields.take("content")
    parts = [] if content is None else _texts(content)
    fields.end()
    if has_failed:
        said = str(parts[0]["text"]) if parts else ""
        parts = [text_part(ERROR_MARK + said), *parts[1:]]
    conversation.result(call_id, parts)


def _user_part(kind: Node, fields: Fields) -> Part:
    match kind.value:
        case "text":
            return _text(fields)
        case "image":
            fields.pass_over(*_HINTS)
            source = fields.need("source").fields()
            fields.end()
            return {"type": "image_url", "image_url": {"url": _image_url(source)}}
    raise kind.refused()


def _image_url(source: Fields) -> str:
    kind = source.need("type")
    match kind.value:
        case "url":
            url = source.need("url").text()
        case "base64":
            media_type, data = source.need("media_type").text(), source.need("data").text()
            url = f"data:{media_type};base64,{data}"
        case _:
            raise kind.refused()
    source.end()
    return url


def _add_assistant(conversation: Conversation, content: Node) -> None:
    conversation.begin_turn(content)
    for block in _blocks(content):
        fields = block.fields()
        kind = fields.need("type")
        match kind.value:
            case "text":
                conversation.add_to_turn(_text(fields))
            case "thinking":
                conversation.think(fields.need("thinking").text(), block)
                fields.pass_over("signature", *_HINTS)
                fields.end()
            case "tool_use":
                _add_call(conversation, fields)
            case _:
                raise kind.refused()


def _add_call(conversation: Conversation, fields: Fields) -> None:
    call_id, name, given = fields.need("id"), fields.need("name").text(), fields.need("input")
    given.fields()
    fields.pass_over(*_HINTS)
    fields.only_as("caller", {"type": "direct"})
    fields.end()
    conversation.call(call_id, name, msgspec.json.encode(given.value).decode())


def _blocks(content: Node) -> list[Node]:
    """The blocks of a content; a string is one of text, an empty one is none."""
    if not isinstance(content.value, str):
        return content.items()
    if not content.value:
        return []
    text = {"type": "text", "text": content.value}
    return [Node(text, content.path, index=content.index)]


def _texts(content: Node) -> list[Part]:
    """The parts of a content that must be text."""
    parts = []
    for block in _blocks(content):
        fields = block.fields()
        kind = fields.need("type")
        if kind.value != "text":
            raise kind.refused("where this can be text only")
        parts.append(_text(fields))
    return parts


def _text(fields: Fields) -> Part:
    text = fields.need("text").text()
    fields.pass_over(*_HINTS)
    fields.only_as("citations", [])
    fields.end()
    return text_part(text)
