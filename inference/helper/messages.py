"""What gateway processes and the helper say to each other, and its frames.

A frame is its length in four bytes, big-endian, and one message in msgpack. Moments are of the
host's monotonic clock, which all its processes share. A frame that cannot be read ends the
connection: whoever wrote it is of another release, or nobody of ours.
"""

from collections.abc import Iterator, Mapping
from dataclasses import field

import msgspec

from inference.contract.values import frozen

FRAME_BYTES_MAX = 256 * 1024
TEXT_CHARS_MAX = 4096
"""Longer texts are past what the embedder reads: they aren't asked of the helper."""

_LENGTH_BYTES = 4


class GarbledFrame(ValueError):
    """What came is no frame of this protocol."""


@frozen
class SemanticQuery:
    """A last user message, asked for among those of its partition.

    `similarity_min` is a cosine.
    """

    partition: bytes
    text: str
    similarity_min: float


@frozen
class SemanticEntry:
    """A last user message whose answer is kept under `key` until `expires_at`, epoch seconds."""

    partition: bytes
    text: str
    key: bytes
    expires_at: float


@frozen
class Nearest:
    """The nearest message there is, and where its answer is kept.

    Without a key it was refused, by the guard of that name, by the `threshold`, or for its length
    (`too_long`: then nothing was looked for, and the similarity is 0).
    """

    key: bytes | None
    similarity: float
    refused_by: str | None


THRESHOLD = "threshold"
TOO_LONG = "too_long"


class _Message(msgspec.Struct, frozen=True, array_like=True, tag=True):
    pass


class AskNearest(_Message, frozen=True, tag="n"):
    """`due` is when whoever asked has stopped waiting."""

    id: int
    due: float
    query: SemanticQuery


class AskAgree(_Message, frozen=True, tag="a"):
    """Whether two answers say the same."""

    id: int
    due: float
    one: str
    other: str


class Ping(_Message, frozen=True, tag="p"):
    """Asks for a Pong, which comes when a question's answer would."""

    id: int


class Remember(_Message, frozen=True, tag="r"):
    entry: SemanticEntry


class Forget(_Message, frozen=True, tag="f"):
    key: bytes


class TellNearest(_Message, frozen=True, tag="n"):
    """`nearest` is None if the partition has nothing."""

    id: int
    nearest: Nearest | None


class TellAgree(_Message, frozen=True, tag="a"):
    """`agreed` is None if that can't be told of these."""

    id: int
    agreed: bool | None


@frozen
class HelperGauge:
    """What the helper's index holds, and what it did since it began."""

    entries: int = 0
    bytes: int = 0
    bytes_max: int = 0
    partitions: int = 0
    evictions_total: int = 0
    embeds_total: int = 0
    hits_total: int = 0
    late_total: int = 0
    dropped_total: int = 0
    failed_total: int = 0
    refusals_total: Mapping[str, int] = field(default_factory=dict)
    """Of near messages, by what refused them: a guard, the threshold, their length."""


class Pong(_Message, frozen=True, tag="p"):
    id: int
    gauge: HelperGauge


Question = AskNearest | AskAgree | Ping
Asked = Question | Remember | Forget
Told = TellNearest | TellAgree | Pong

_encoder = msgspec.msgpack.Encoder()
_asked_decoder: msgspec.msgpack.Decoder[Asked] = msgspec.msgpack.Decoder(Asked)
_told_decoder: msgspec.msgpack.Decoder[Told] = msgspec.msgpack.Decoder(Told)


def frame_of(message: Asked | Told) -> bytes:
    """Write one message."""
    payload = _encoder.encode(message)
    return len(payload).to_bytes(_LENGTH_BYTES, "big") + payload


class Frames:
    """The payloads of what one connection brings, in pieces of any size."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Take what came, and give each payload that is whole; raises GarbledFrame."""
        self._buffer += data
        while len(self._buffer) >= _LENGTH_BYTES:
            length = int.from_bytes(self._buffer[:_LENGTH_BYTES], "big")
            if not 0 < length <= FRAME_BYTES_MAX:
                raise GarbledFrame(f"a frame of {length} bytes")
            end = _LENGTH_BYTES + length
            if len(self._buffer) < end:
                return
            payload = bytes(self._buffer[_LENGTH_BYTES:end])
            del self._buffer[:end]
            yield payload


def read_asked(payload: bytes) -> Asked:
    """Read what a gateway process says; raises GarbledFrame."""
    try:
        return _asked_decoder.decode(payload)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise GarbledFrame(str(error)) from error


def read_told(payload: bytes) -> Told:
    """Read what the helper says; raises GarbledFrame."""
    try:
        return _told_decoder.decode(payload)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise GarbledFrame(str(error)) from error
