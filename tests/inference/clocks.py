"""A clock that tests move by hand."""


class HandClock:
    """Seconds since the epoch, until moved."""

    def __init__(self, now: float = 1_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def move(self, seconds: float) -> None:
        self.now += seconds
