"""How long a worker may take, and what is done while it says nothing."""

from collections.abc import Awaitable, Callable

from inference.contract.values import frozen

Take = Callable[[bytes], bool]
"""Takes what a worker said, b"" being its end; False once it wants no more for now."""


@frozen
class Timeouts:
    """Seconds. First byte: from sending to the first byte of the body; idle: between two reads."""

    connect_s: float
    first_byte_s: float
    idle_s: float


@frozen
class Pulse:
    """What to do while a worker says nothing: `beat`, each time `left_s` has run out."""

    left_s: Callable[[], float]
    beat: Callable[[], Awaitable[None]]
