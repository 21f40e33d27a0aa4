"""Frames in, frames out: what a client may see, and what they said about usage."""

import itertools
import json
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.contract.events import Usage
from inference.gateway.chunks import ChunkReader, has_content, without_usage
from inference.gateway.streaming import MAX_FRAME_BYTES, BadFrame, StreamFilter

USAGE = '{"prompt_tokens":10,"total_tokens":15,"completion_tokens":5}'
ROLE = b'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\n'
HELLO = b'data: {"choices":[{"index":0,"delta":{"content":"hello"}}]}\n\n'
STOP = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
CLOSING = b'data: {"choices":[],"usage":%b}\n\n' % USAGE.encode()
DONE = b"data: [DONE]\n\n"


def filter_of(
    *, shows_usage: bool = False, shows_frame_usage: bool = False, choices_each: int | None = None
) -> StreamFilter:
    return StreamFilter(
        ChunkReader(
            shows_usage=shows_usage, shows_frame_usage=shows_frame_usage, choices_each=choices_each
        )
    )


def filtered(
    parts: Iterable[bytes], *, shows_usage: bool = False, shows_frame_usage: bool = False
) -> tuple[bytes, StreamFilter]:
    stream = filter_of(shows_usage=shows_usage, shows_frame_usage=shows_frame_usage)
    return b"".join([stream.feed(part) for part in parts] + [stream.end()]), stream


def with_usage(text: str, usage: str = USAGE) -> bytes:
    return (
        f'data: {{"id":"1","choices":[{{"index":0,"delta":{{"content":"{text}"}}}}],'
        f'"usage":{usage}}}\n\n'
    ).encode()


def without(text: str) -> bytes:
    return (
        f'data: {{"id":"1","choices":[{{"index":0,"delta":{{"content":"{text}"}}}}]}}\n\n'.encode()
    )


def test_frames_pass_as_they_came_and_the_mark_is_kept_back() -> None:
    passed, stream = filtered([ROLE + HELLO, STOP + DONE + b"data: late\n\n"])
    assert passed == ROLE + HELLO + STOP
    assert (stream.is_done, stream.closing) == (True, DONE)


def test_closing_usage_is_seen_and_hidden_or_shown_as_asked() -> None:
    hidden, stream = filtered([HELLO, CLOSING, DONE])
    assert (hidden, stream.usage()) == (HELLO, Usage(10, 5))
    shown, stream = filtered([HELLO, CLOSING, DONE], shows_usage=True)
    assert (shown, stream.usage()) == (HELLO + CLOSING, Usage(10, 5))


@pytest.mark.parametrize("shows_usage", [True, False])
def test_usage_in_every_frame_is_cut_out_and_nothing_else_is(shows_usage: bool) -> None:
    first = with_usage("a", '{"prompt_tokens":10,"completion_tokens":1}')
    passed, stream = filtered([first + with_usage("b")], shows_usage=shows_usage)
    assert passed == without("a") + without("b")
    assert stream.usage() == Usage(10, 5)


def test_usage_in_every_frame_stays_for_those_who_asked_for_it() -> None:
    passed, _ = filtered([with_usage("a")], shows_usage=True, shows_frame_usage=True)
    assert passed == with_usage("a")


def test_a_null_usage_is_cut_unless_usage_was_asked_for() -> None:
    assert filtered([with_usage("a", "null")])[0] == without("a")
    assert filtered([with_usage("a", "null")], shows_usage=True)[0] == with_usage("a", "null")
    assert filtered([with_usage("a", "null")])[1].usage() is None


@pytest.mark.parametrize(
    ("payload", "rest"),
    [
        (b'{"usage":{"a":1},"choices":[]}', b'{"choices":[]}'),
        (b'{"choices":[], "usage": {"a":1}}', b'{"choices":[]}'),
        (b'{"a":"\\"usage\\":{\\"a\\":1}","usage":{"a":1}}', b'{"a":"\\"usage\\":{\\"a\\":1}"}'),
        (b'{"a":{"usage":{"a":1}},"usage":{"a":1}}', b'{"a":{"usage":{"a":1}}}'),
        (b'{"usage":{"a":1},"a":{"usage":{"a":1}}}', b'{"a":{"usage":{"a":1}}}'),
        (b'{"usage":{"a":1}}', b"{}"),
    ],
)
def test_only_the_frames_own_usage_member_is_cut(payload: bytes, rest: bytes) -> None:
    assert without_usage(payload, b'{"a":1}') == rest
    json.loads(rest)


def test_usage_inside_a_choice_or_a_text_is_not_the_frames() -> None:
    nested = b'data: {"choices":[{"delta":{"content":"x"},"usage":{"prompt_tokens":1}}]}\n\n'
    quoted = b'data: {"choices":[{"delta":{"content":"\\"usage\\":{\\"prompt_tokens\\":1}"}}]}\n\n'
    passed, stream = filtered([nested, quoted])
    assert passed == nested + quoted
    assert stream.usage() is None


def test_parts_of_usage_in_several_frames_are_put_together() -> None:
    prompt = b'data: {"choices":[],"usage":{"prompt_tokens":10}}\n\n'
    counted = b'data: {"choices":[],"usage":{"completion_tokens":%d}}\n\n'
    _, stream = filtered([HELLO, prompt, counted % 3, counted % 5])
    assert stream.usage() == Usage(10, 5)
    unsaid = b'data: {"choices":[],"usage":{"prompt_tokens":null,"completion_tokens":7}}\n\n'
    _, stream = filtered([HELLO, CLOSING, unsaid])
    assert stream.usage() == Usage(10, 7)


def test_zero_is_a_usage_and_none_is_none() -> None:
    zero = b'data: {"choices":[],"usage":{"prompt_tokens":0,"completion_tokens":0}}\n\n'
    assert filtered([HELLO, zero])[1].usage() == Usage(0, 0)
    assert filtered([HELLO])[1].usage() is None
    odd = b'data: {"choices":[],"usage":[1]}\n\n'
    assert filtered([HELLO, odd])[1].usage() is None


@given(cuts=st.lists(st.integers(0, 400), max_size=12), ending=st.sampled_from(["\n", "\r\n"]))
def test_where_reads_end_makes_no_difference(cuts: list[int], ending: str) -> None:
    whole = ROLE + with_usage("a") + b": ping\n\n" + HELLO + STOP + CLOSING + DONE
    sent = whole.replace(b"\n", ending.encode())
    bounds = sorted({min(cut, len(sent)) for cut in cuts} | {0, len(sent)})
    parts = [sent[start:end] for start, end in itertools.pairwise(bounds)]
    passed, stream = filtered(parts)
    assert passed == ROLE + without("a") + b": ping\n" + HELLO + STOP
    assert stream.usage() == Usage(10, 5)
    assert stream.is_done


@pytest.mark.parametrize(
    "noise", [b": wait\n\n", b":\n\n", b"\n\n\n", b"event: ping\n\n", b"id: 7\n\n"]
)
def test_comments_and_empty_events_never_become_events(noise: bytes) -> None:
    before, _ = filtered([noise * 3, HELLO])
    assert before == HELLO
    after, _ = filtered([HELLO, noise, STOP])
    assert after.startswith(HELLO)
    assert after.endswith(STOP)
    between = after[len(HELLO) : -len(STOP)]
    assert between in (b"", noise[:-1])
    assert b"\n\n" not in between


def test_an_event_of_several_lines_keeps_its_fields() -> None:
    split = b'event: message\ndata: {"choices":\ndata: [{"delta":{"content":"x"}}]}\n\n'
    joined = b'event: message\ndata: {"choices": [{"delta":{"content":"x"}}]}\n\n'
    assert filtered([split])[0] == joined
    assert filtered([b'data:{"choices":[1]}\n\n'])[0] == b'data: {"choices":[1]}\n\n'


@pytest.mark.parametrize(
    ("frame", "error"),
    [
        (b'data: {"error":{"code":502}}\n\n', b'{"code":502}'),
        (b'event: error\ndata: {"error": "no"}\n\n', b'"no"'),
    ],
)
def test_an_error_frame_ends_the_stream_and_is_not_passed(frame: bytes, error: bytes) -> None:
    passed, stream = filtered([HELLO, HELLO + frame + HELLO + DONE])
    assert passed == HELLO + HELLO
    assert (stream.error, stream.is_done) == (error, False)


def test_a_null_error_is_none_and_the_word_in_a_text_neither() -> None:
    null = b'data: {"choices":[{"delta":{"content":"x"}}],"error":null}\n\n'
    logprob = b'data: {"choices":[{"delta":{"content":"x"},"logprobs":{"token":"error"}}]}\n\n'
    passed, stream = filtered([null, logprob])
    assert (passed, stream.error) == (null + logprob, None)


@pytest.mark.parametrize(
    ("choices", "is_content"),
    [
        ("", False),
        ("null", False),
        ("[]", False),
        ('[{"delta":{"role":"assistant"}}]', False),
        ('[{"delta":{"role":"assistant","content":"","tool_calls":[],"refusal":null}}]', False),
        ('[{"delta":{"content":"a"}}]', True),
        ('[{"delta":{"content":" "}}]', True),
        ('[{"delta":{"reasoning":"a"}}]', True),
        ('[{"delta":{"reasoning_content":"a"}}]', True),
        ('[{"delta":{"refusal":"a"}}]', True),
        ('[{"delta":{"tool_calls":[{"index":0}]}}]', True),
        ('[{"delta":{"x_unknown":{"a":1}}}]', True),
        ('[{"delta":{},"finish_reason":"stop"}]', True),
        ('[{"delta":{}},{"delta":{"content":"b"}}]', True),
        ('[{"index":0,"text":"a","logprobs":null,"finish_reason":null}]', True),
        ('[{"index":1,"text":"","logprobs":null,"finish_reason":null}]', False),
        ('[{"index":0,"text":"","logprobs":{"tokens":["a"]},"finish_reason":null}]', True),
        ('[{"index":0,"text":"","finish_reason":"length"}]', True),
    ],
)
def test_content_is_any_part_of_a_delta_but_its_role(choices: str, is_content: bool) -> None:
    assert has_content(choices.encode()) is is_content


def test_what_is_no_frame_is_refused() -> None:
    stream = filter_of()
    with pytest.raises(BadFrame):
        stream.feed(b"data: <html>\n\n")
    stream = filter_of()
    with pytest.raises(BadFrame):
        stream.feed(b"data: " + b"x" * MAX_FRAME_BYTES)


def test_usage_of_each_choice_is_put_together_and_a_prompt_counted_once() -> None:
    frame = (
        b'data: {"choices":[{"index":%d,"text":"x"}],'
        b'"usage":{"prompt_tokens":%d,"completion_tokens":%d}}\n\n'
    )
    frames = [frame % (0, 7, 1), frame % (2, 9, 1), frame % (1, 7, 3), frame % (0, 7, 2)]
    stream = filter_of(choices_each=2)
    passed = b"".join(stream.feed(one) for one in frames)
    assert b"usage" not in passed
    assert passed.count(b"data: ") == 4
    assert stream.usage() == Usage(16, 6)
    stream.feed(CLOSING)
    assert stream.usage() == Usage(10, 5)


@pytest.mark.parametrize(("last", "has_finished"), [(STOP, True), (HELLO, False), (CLOSING, False)])
def test_a_stream_without_a_mark_has_finished_if_it_gave_a_reason(
    last: bytes, has_finished: bool
) -> None:
    assert filtered([HELLO, last])[1].has_finished() is has_finished
    assert filtered([HELLO, STOP, CLOSING])[1].has_finished()


def test_the_last_event_counts_without_its_blank_line() -> None:
    passed, stream = filtered([HELLO, b"data: [DONE]"])
    assert (passed, stream.is_done) == (HELLO, True)


USAGES = st.sampled_from(
    [
        {"prompt_tokens": 5, "total_tokens": 7, "completion_tokens": 2},
        {"prompt_tokens": 5, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 1}},
        {"prompt_tokens": 5, "completion_tokens": None},
        {"prompt_tokens": 5},
        {},
        None,
    ]
)
MEMBERS = st.fixed_dictionaries(
    {
        "choices": st.sampled_from([[{"delta": {"content": "x"}}], [], [{"usage": {"a": 1}}]]),
        "usage": USAGES,
    },
    optional={"x": st.sampled_from(['a ,"usage":{"b":1}}', {"usage": {"c": 1}}, "}", [{}]])},
)


@given(members=MEMBERS, order=st.permutations(("choices", "usage", "x")), is_spaced=st.booleans())
def test_usage_is_cut_out_by_its_place_as_by_reading_the_frame(
    members: dict[str, object], order: list[str], is_spaced: bool
) -> None:
    separators = (", ", ": ") if is_spaced else (",", ":")
    ordered = {name: members[name] for name in order if name in members}
    payload = json.dumps(ordered, separators=separators).encode()
    readers = [ChunkReader(shows_usage=True, shows_frame_usage=False) for _ in range(2)]
    for reader in readers:
        reader.has_content = True
    readers[1]._is_usage_hidden = False
    by_place, by_reading = (reader.read(payload) for reader in readers)
    assert by_place == by_reading
    assert readers[0].usage() == readers[1].usage()


LIKELY = (
    "",
    "x",
    'says \\"usage\\":{',
    "\\n\\n",
    "[DONE]",
    "ends in \\\\",
    "}}",
)
SHAPES = st.builds(
    lambda name, text, rest, usage: (
        f'data: {{"id":"1","choices":[{{"index":0,"delta":{{"{name}":"{text}"}}{rest}}}]'
        f"{usage}}}\n\n"
    ),
    st.sampled_from(("content", "reasoning", "x")),
    st.sampled_from(LIKELY),
    st.sampled_from(
        ("", ',"logprobs":null', ',"logprobs":{"content":"error"}', ',"usage":{"a":1}')
    ),
    st.sampled_from(
        (
            "",
            ',"usage":{"prompt_tokens":5,"completion_tokens":2}',
            ',"usage":{"prompt_tokens":5,"total_tokens":8,"completion_tokens":3}',
            ',"usage":{"prompt_tokens":5,"total_tokens":9,"completion_tokens":4,"details":null}',
            ',"usage":{"prompt_tokens":5,"completion_tokens":null}',
            ',"usage":{"prompt_tokens":6}',
            ',"usage":{"prompt_tokens":5,"completion_tokens":7,"details":{"a":1}}',
            ',"usage":null',
            ',"error":null',
            ',"error":{"code":1}',
        )
    ),
)
OTHERS = st.sampled_from(
    (
        ": ping\n\n",
        "event: message\ndata: {}\n\n",
        CLOSING.decode(),
        STOP.decode(),
        DONE.decode(),
        'data: {"choices":[{"index":0,"delta":{"content":"a',  # which a cut frame goes on with
    )
)


class Careful(ChunkReader):
    """One that lets pass only what nobody could have to look at, and reads each other frame."""

    def pass_usual(self, block: bytes) -> bytes | None:
        return None

    def pass_on(self, block: bytes) -> bytes | None:
        signs = (b'"usage"', b'"error"', b"[DONE]", b"\n:", b"\n\n\n")
        is_plain = block.startswith(b"data:") and not any(sign in block for sign in signs)
        return block if is_plain else None


@given(
    frames=st.lists(st.one_of(SHAPES, SHAPES, SHAPES, OTHERS), max_size=8),
    reads=st.lists(st.integers(1, 3), min_size=8, max_size=8),
    shows=st.sampled_from([(False, False), (True, False), (True, True)]),
    choices_each=st.sampled_from([None, None, 1]),
)
def test_frames_are_passed_at_a_glance_as_by_reading_them(
    frames: list[str],
    reads: list[int],
    shows: tuple[bool, bool],
    choices_each: int | None,
) -> None:
    sent = [HELLO, *(frame.encode() for frame in frames)]
    parts = [b"".join(itertools.islice(left, count)) for left in [iter(sent)] for count in reads]
    results = []
    for make in (ChunkReader, Careful):
        stream = StreamFilter(
            make(shows_usage=shows[0], shows_frame_usage=shows[1], choices_each=choices_each)
        )
        said: list[object] = []
        for part in filter(None, parts):
            try:
                said.append(stream.feed(part))
            except BadFrame:
                said.append(BadFrame)
                break
            if stream.is_done or stream.error is not None:
                break  # nobody reads on
        results.append((said, stream.usage(), stream.error, stream.is_done, stream.has_finished()))
    assert results[0] == results[1]
