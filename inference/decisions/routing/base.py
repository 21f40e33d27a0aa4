"""What every routing strategy promises."""

from collections.abc import Sequence
from typing import Protocol

from inference.contract.snapshot import TargetRecord


class OrderTargets(Protocol):
    """Put targets in the order they are to be tried in.

    `u` in [0, 1) is all the chance there is: the same one gives the same order. The result holds no
    target twice and none of weight 0; it may be empty.
    """

    def __call__(
        self, targets: Sequence[TargetRecord], *, u: float
    ) -> tuple[TargetRecord, ...]: ...
