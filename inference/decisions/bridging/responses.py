"""OpenAI's responses, in the words of chat."""

from collections.abc import Callable, Mapping

from inference.decisions.bridging.base import ENGINE_MEMBERS, Members, Said
from inference.decisions.bridging.conversation import Conversation, Part, text_part
from inference.decisions.bridging.documents import Fields, Node, decoded

_INDEX = "[{}]"

# What both dialects call alike. Both tiers and keys of a cache are the provider's to judge.
_ALIKE = (
    *("temperature", "top_p", "user", "safety_identifier", "service_tier", "parallel_tool_calls"),
    *("prompt_cache_key", "prompt_cache_retention"),
)

# What an answer repeats of its request, and what it says if that said nothing.
_REPEATED: Mapping[str, object] = {
    "instructions": None,
    "max_output_tokens": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "prompt_cache_key": None,
    "reasoning": {"effort": None, "summary": None},
    "safety_identifier": None,
    "temperature": None,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_p": None,
    "user": None,
}
_ALWAYS: Mapping[str, object] = {
    "background": False,
    "previous_response_id": None,
    "store": False,
    "truncation": "disabled",
}

_ROLES = {"user": "user", "system": "system", "developer": "system", "assistant": "assistant"}


def say_response(members: Members, *, reasoning: str) -> Said:
    """A request for a response, in chat's words; raises Untranslatable."""
    own = {name: raw for name, raw in members.items() if name not in ENGINE_MEMBERS}
    told = _told(own)
    fields = decoded(own, index=_INDEX)
    # nothing is kept, wherever it is asked; what would need it was refused before
    fields.pass_over("model", "stream", "store", "metadata")
    fields.only_as("background", False)
    fields.only_as("truncation", "disabled")
    fields.only_as("include", [])
    fields.only_as("top_logprobs", 0)
    fields.only_as("stream_options", {}, {"include_obfuscation": False})
    said: dict[str, object] = {"messages": _conversation(fields, reasoning=reasoning)}
    for name in _ALIKE:
        if (given := fields.take(name)) is not None:
            said[name] = given.value
    said |= _tools(fields)
    said |= _text(fields)
    said |= _reasoning(fields)
    most = fields.take("max_output_tokens")
    fields.end()
    said |= {name: raw for name, raw in members.items() if name in ENGINE_MEMBERS}
    return Said(said, None if most is None else _bound(most), told)


def _told(members: Members) -> dict[str, object]:
    """What the answer repeats."""
    fields = decoded({name: members[name] for name in _REPEATED if name in members}, index=_INDEX)
    told = dict(_ALWAYS)
    for name, usual in _REPEATED.items():
        given = fields.take(name)
        told[name] = usual if given is None else given.value
    return told


def _bound(most: Node) -> int:
    if isinstance(most.value, bool) or not isinstance(most.value, int) or most.value < 1:
        raise most.wrong("must be a whole number above 0")
    return most.value


def _reasoning(fields: Fields) -> dict[str, object]:
    node = fields.take("reasoning")
    if node is None:
        return {}
    inner = node.fields()
    effort = inner.text("effort")
    inner.end()
    return {} if effort is None else {"reasoning_effort": effort}


def _text(fields: Fields) -> dict[str, object]:
    node = fields.take("text")
    if node is None:
        return {}
    inner, said = node.fields(), dict[str, object]()
    if (verbosity := inner.text("verbosity")) is not None:
        said["verbosity"] = verbosity
    if (shape := inner.take("format")) is not None:
        said |= _format(shape)
    inner.end()
    return said


def _format(node: Node) -> dict[str, object]:
    fields = node.fields()
    kind = fields.need("type")
    said: dict[str, object] = {}
    match kind.value:
        case "text":
            pass
        case "json_object":
            said = {"response_format": {"type": "json_object"}}
        case "json_schema":
            schema: dict[str, object] = {"name": fields.need("name").text()}
            for name in ("description", "strict"):
                if (given := fields.take(name)) is not None:
                    schema[name] = given.value
            schema["schema"] = fields.need("schema").value
            said = {"response_format": {"type": "json_schema", "json_schema": schema}}
        case _:
            raise kind.refused()
    fields.end()
    return said


def _tools(fields: Fields) -> dict[str, object]:
    said: dict[str, object] = {}
    tools = fields.take("tools")
    if tools is not None:
        said["tools"] = [_tool(one) for one in tools.items()]
    choice = fields.take("tool_choice")
    if choice is not None:
        said["tool_choice"] = _tool_choice(choice)
    return said


def _tool(node: Node) -> Part:
    fields = node.fields()
    kind = fields.need("type")
    if kind.value != "function":
        raise kind.refused("which knows functions of the caller's alone")
    function: dict[str, object] = {"name": fields.need("name").text()}
    if (description := fields.text("description")) is not None:
        function["description"] = description
    for name in ("parameters", "strict"):
        if (given := fields.take(name)) is not None:
            function[name] = given.value
    fields.only_as("defer_loading", False)
    fields.end()
    return {"type": "function", "function": function}


def _tool_choice(node: Node) -> object:
    if isinstance(node.value, str):
        if node.value not in ("auto", "none", "required"):
            raise node.refused()
        return node.value
    fields = node.fields()
    kind = fields.need("type")
    if kind.value != "function":
        raise kind.refused()
    name = fields.need("name").text()
    fields.end()
    return {"type": "function", "function": {"name": name}}


def _conversation(fields: Fields, *, reasoning: str) -> list[object]:
    conversation = Conversation(reasoning=reasoning)
    instructions = fields.take("instructions")
    if instructions is not None:
        conversation.say("system", [text_part(instructions.text())], instructions)
    given = fields.need("input")
    if isinstance(given.value, str):
        conversation.say("user", [text_part(given.value)], given)
    else:
        for item in given.items():
            _add_item(conversation, item)
    return list(conversation.end())


def _add_item(conversation: Conversation, item: Node) -> None:
    fields = item.fields()
    kind = fields.take("type")
    add = _ITEMS.get("message" if kind is None else str(kind.value))
    if add is None or (kind is not None and not isinstance(kind.value, str)):
        assert kind is not None
        raise kind.refused()
    fields.pass_over("id", "status")
    add(conversation, item, fields)
    fields.end()


def _add_message(conversation: Conversation, item: Node, fields: Fields) -> None:
    role, content = fields.need("role"), fields.need("content")
    fields.pass_over("phase")
    said_by = _ROLES.get(role.value) if isinstance(role.value, str) else None
    if said_by is None:
        raise role.wrong("must be user, assistant, system or developer")
    if isinstance(content.value, str):
        parts = [text_part(content.value)]
    else:
        parts = [_part(one, said_by) for one in content.items()]
    if said_by == "assistant":
        conversation.answer(parts, item)
    else:
        conversation.say(said_by, parts, item)


def _add_call(conversation: Conversation, _item: Node, fields: Fields) -> None:
    call_id, name = fields.need("call_id"), fields.need("name").text()
    arguments = fields.need("arguments").text()
    fields.only_as("caller", {"type": "direct"})
    conversation.call(call_id, name, arguments)


def _add_output(conversation: Conversation, _item: Node, fields: Fields) -> None:
    call_id, output = fields.need("call_id"), fields.need("output")
    fields.only_as("caller", {"type": "direct"})
    if isinstance(output.value, str):
        parts = [text_part(output.value)]
    else:
        parts = [_part(one, "tool") for one in output.items()]
    conversation.result(call_id, parts)


def _add_reasoning(conversation: Conversation, item: Node, fields: Fields) -> None:
    """Thoughts that were told; a summary of them, or a sealed form, is none."""
    fields.only_as("summary", [])
    content = fields.take("content")
    texts = []
    for one in [] if content is None else content.items():
        part = one.fields()
        kind = part.need("type")
        if kind.value != "reasoning_text":
            raise kind.refused()
        texts.append(part.need("text").text())
        part.end()
    if texts:
        conversation.think("".join(texts), item)


def _part(node: Node, said_by: str) -> Part:
    """A part of a content, if whoever says it can say such a thing in chat."""
    fields = node.fields()
    kind = fields.need("type")
    if kind.value in ("input_text", "output_text"):
        part = _text_of(fields)
    elif kind.value == "refusal" and said_by == "assistant":
        part = {"type": "refusal", "refusal": fields.need("refusal").text()}
    elif said_by == "user" and isinstance(kind.value, str) and kind.value in _USER_PARTS:
        part = _USER_PARTS[kind.value](fields)
    else:
        raise kind.refused()
    fields.pass_over("prompt_cache_breakpoint")
    fields.end()
    return part


def _text_of(fields: Fields) -> Part:
    fields.pass_over("logprobs")
    fields.only_as("annotations", [])
    return text_part(fields.need("text").text())


def _image(fields: Fields) -> Part:
    fields.only_as("file_id")
    picture: dict[str, object] = {"url": fields.need("image_url").text()}
    if (detail := fields.text("detail")) is not None:
        picture["detail"] = detail
    return {"type": "image_url", "image_url": picture}


def _file(fields: Fields) -> Part:
    for name in ("file_id", "file_url", "detail"):
        fields.only_as(name)
    told: dict[str, object] = {}
    if (called := fields.text("filename")) is not None:
        told["filename"] = called
    return {"type": "file", "file": {**told, "file_data": fields.need("file_data").text()}}


def _sound(fields: Fields) -> Part:
    return {"type": "input_audio", "input_audio": fields.need("input_audio").value}


_USER_PARTS: Mapping[str, Callable[[Fields], Part]] = {
    "input_image": _image,
    "input_file": _file,
    "input_audio": _sound,
}

_ITEMS: Mapping[str, Callable[[Conversation, Node, Fields], None]] = {
    "message": _add_message,
    "function_call": _add_call,
    "function_call_output": _add_output,
    "reasoning": _add_reasoning,
}
