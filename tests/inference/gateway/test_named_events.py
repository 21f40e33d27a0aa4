"""Streams of named events in, the same out: what they say of content, usage, error and end."""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.contract.events import Usage
from inference.contract.kinds import Endpoint
from inference.gateway.named import NamedEventReader, next_sequence_number
from inference.gateway.streaming import BadFrame, StreamFilter


def event(kind: str, **members: object) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **members})}\n\n".encode()


def words(*texts: str) -> bytes:
    return b"".join(event("response.output_text.delta", delta=text) for text in texts)


def text_deltas(*texts: str) -> bytes:
    return b"".join(
        event("content_block_delta", index=0, delta={"type": "text_delta", "text": text})
        for text in texts
    )


USED = {"input_tokens": 10, "output_tokens": 5}
CREATED = event("response.created", response={"usage": None, "error": None, "output": []})
ADDED = event("response.output_item.added", item={"content": []})
COMPLETED = event("response.completed", response={"status": "completed", "usage": USED})
STARTED = event("message_start", message={"usage": {"input_tokens": 10, "output_tokens": 0}})
BLOCK = event("content_block_start", index=0, content_block={"type": "text", "text": ""})
ENDING = event("message_delta", delta={"stop_reason": "end_turn"}, usage=USED)
STOPPED = event("message_stop")

RESPONSE = (CREATED + ADDED, words("a", "b"), b"", COMPLETED)
MESSAGE = (STARTED + BLOCK, text_deltas("a", "b"), ENDING, STOPPED)
each_endpoint = pytest.mark.parametrize(
    ("endpoint", "parts"), [(Endpoint.RESPONSES, RESPONSE), (Endpoint.MESSAGES, MESSAGE)]
)
Parts = tuple[bytes, bytes, bytes, bytes]


def fed(endpoint: Endpoint, *parts: bytes) -> tuple[bytes, StreamFilter]:
    stream = StreamFilter(NamedEventReader(endpoint))
    return b"".join([stream.feed(part) for part in parts] + [stream.end()]), stream


@each_endpoint
def test_events_pass_as_they_came_and_the_last_is_kept_back(
    endpoint: Endpoint, parts: Parts
) -> None:
    passed, stream = fed(endpoint, *parts[:-1], parts[-1] + b"data: late\n\n")
    assert passed == b"".join(parts[:-1])
    assert (stream.is_done, stream.closing, stream.error) == (True, parts[-1], None)
    assert stream.usage() == Usage(10, 5)


@each_endpoint
def test_content_begins_with_the_first_part_of_the_answer(endpoint: Endpoint, parts: Parts) -> None:
    before, content, *_ = parts
    assert not fed(endpoint, before)[1].has_content
    assert fed(endpoint, before, content)[1].has_content


@each_endpoint
@given(cuts=st.lists(st.integers(0, 900), max_size=12), ending=st.sampled_from(["\n", "\r\n"]))
def test_where_reads_end_makes_no_difference(
    endpoint: Endpoint, parts: Parts, cuts: list[int], ending: str
) -> None:
    before, content, *rest = parts
    sent = b"".join((before, b": ping\n\n", content, b":\n\n", *rest))
    sent = sent.replace(b"\n", ending.encode())
    bounds = sorted({min(cut, len(sent)) for cut in cuts} | {0, len(sent)})
    passed, stream = fed(endpoint, *(sent[one:two] for one, two in itertools.pairwise(bounds)))
    assert passed + stream.closing == b"".join((before, content, b":\n", *rest))
    assert stream.usage() == Usage(10, 5)


@each_endpoint
def test_an_answer_that_breaks_off_used_what_came_of_it_at_least(
    endpoint: Endpoint, parts: Parts
) -> None:
    before, content, *_ = parts
    prompt = 10 if endpoint is Endpoint.MESSAGES else None
    assert fed(endpoint, before, content)[1].usage() == Usage(prompt, 2)
    assert fed(endpoint, before, content + content)[1].usage() == Usage(prompt, 4)
    begun = fed(endpoint, before)[1].usage()
    assert begun == (Usage(10, 0) if prompt else None)


def test_a_signature_is_no_piece_of_an_answer() -> None:
    signature = event("content_block_delta", delta={"type": "signature_delta", "signature": "x"})
    _, stream = fed(Endpoint.MESSAGES, STARTED, text_deltas("a"), text_deltas("b") + signature)
    assert stream.usage() == Usage(10, 2)


def test_a_messages_usage_is_put_together_from_its_first_and_last_word() -> None:
    read = {"input_tokens": 2, "cache_read_input_tokens": 8, "output_tokens": 1}
    started = event("message_start", message={"usage": read})
    ending = event("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 5})
    _, stream = fed(Endpoint.MESSAGES, started, text_deltas("a"), ending, STOPPED)
    assert stream.usage() == Usage(10, 5, 8)
    later = event("message_delta", usage={**read, "output_tokens": 5})
    _, stream = fed(Endpoint.MESSAGES, STARTED, text_deltas("a"), later, STOPPED)
    assert stream.usage() == Usage(10, 5, 8)


def test_zero_is_a_usage_and_null_is_none() -> None:
    zero = {"input_tokens": 0, "output_tokens": 0}
    done = event("response.completed", response={"usage": zero})
    assert fed(Endpoint.RESPONSES, words("a"), done)[1].usage() == Usage(0, 0)
    done = event("response.completed", response={"usage": None})
    assert fed(Endpoint.RESPONSES, words("a"), done)[1].usage() is None


def test_an_answer_that_ran_into_its_limit_is_whole() -> None:
    cut = event("response.incomplete", response={"status": "incomplete", "usage": USED})
    passed, stream = fed(Endpoint.RESPONSES, CREATED, words("a"), cut)
    assert (passed, stream.is_done, stream.closing) == (CREATED + words("a"), True, cut)
    assert stream.usage() == Usage(10, 5)


@pytest.mark.parametrize(
    ("endpoint", "frame", "error"),
    [
        (
            Endpoint.RESPONSES,
            event("response.failed", response={"error": {"code": "server_error"}, "usage": None}),
            {"code": "server_error"},
        ),
        (
            Endpoint.RESPONSES,
            event("error", code="server_error", message="no", param=None),
            {"type": "error", "code": "server_error", "message": "no", "param": None},
        ),
        (Endpoint.RESPONSES, b'data: {"error":{"code":500}}\n\n', {"code": 500}),
        (
            Endpoint.MESSAGES,
            event("error", error={"type": "overloaded_error", "message": "x"}),
            {"type": "overloaded_error", "message": "x"},
        ),
    ],
)
def test_an_error_ends_the_stream_and_is_not_passed(
    endpoint: Endpoint, frame: bytes, error: object
) -> None:
    content = words("a") if endpoint is Endpoint.RESPONSES else text_deltas("a")
    passed, stream = fed(endpoint, content, content + frame + content)
    assert (passed, stream.is_done) == (content + content, False)
    assert json.loads(stream.error or b"") == error


@each_endpoint
@pytest.mark.parametrize("text", ['"error"', '"usage"', "response.completed", "\n\nevent: error"])
def test_words_of_the_format_in_a_text_are_text(
    endpoint: Endpoint, parts: Parts, text: str
) -> None:
    made = words(text) if endpoint is Endpoint.RESPONSES else text_deltas(text)
    before, content, ending, last = parts
    passed, stream = fed(endpoint, before, content, made, ending + last)
    assert passed == before + content + made + ending
    assert stream.is_done


def test_a_message_without_its_end_is_whole_if_it_gave_a_reason() -> None:
    passed, stream = fed(Endpoint.MESSAGES, STARTED, text_deltas("a"), ENDING)
    assert (stream.is_done, stream.has_finished()) == (False, True)
    assert stream.closing == b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
    assert not fed(Endpoint.MESSAGES, STARTED, text_deltas("a"))[1].has_finished()
    assert not fed(Endpoint.RESPONSES, CREATED, words("a"))[1].has_finished()
    assert passed == STARTED + text_deltas("a") + ENDING


@each_endpoint
def test_openais_mark_ends_nothing_here(endpoint: Endpoint, parts: Parts) -> None:
    before, content, ending, last = parts
    mark = b"data: [DONE]\n\n"
    passed, stream = fed(endpoint, mark + before, content, mark + ending + last + mark)
    assert passed + stream.closing == b"".join(parts)


def test_events_without_a_line_for_their_name_are_understood_by_their_type() -> None:
    bare = b"".join(
        line + b"\n\n" for line in b"".join(RESPONSE).split(b"\n") if line.startswith(b"data:")
    )
    passed, stream = fed(Endpoint.RESPONSES, bare)
    assert (passed + stream.closing, stream.usage()) == (bare, Usage(10, 5))


@pytest.mark.parametrize("payload", ["<html>", "[]", '{"type":7}', '{"response":{"usage":', "7"])
def test_what_is_no_event_is_refused(payload: str) -> None:
    with pytest.raises(BadFrame):
        fed(Endpoint.RESPONSES, f"event: x\ndata: {payload}\n\n".encode())


def test_the_next_number_follows_the_last_that_was_seen() -> None:
    assert next_sequence_number(b"") == 0
    seen = event("response.created", sequence_number=3) + event("x", sequence_number=17)
    quoted = event("x", delta='"sequence_number": 99')
    assert next_sequence_number(seen + quoted) == 18
