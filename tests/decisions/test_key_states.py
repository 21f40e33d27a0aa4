"""The word of a key's state."""

from datetime import UTC, datetime, timedelta

import pytest

from controlplane.decisions.key_states import EXPIRES_SOON, KeyState, state_of_key

NOW = datetime(2026, 11, 24, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)


@pytest.mark.parametrize(
    ("is_enabled", "expires_at", "revoked_at", "state"),
    [
        (True, None, None, KeyState.ACTIVE),
        (True, NOW + EXPIRES_SOON + SECOND, None, KeyState.ACTIVE),
        (True, NOW + EXPIRES_SOON, None, KeyState.EXPIRING),
        (True, NOW, None, KeyState.EXPIRED),
        (False, None, None, KeyState.DISABLED),
        (False, NOW, None, KeyState.EXPIRED),
        (False, NOW, NOW, KeyState.REVOKED),
    ],
)
def test_what_is_final_wins_over_what_can_be_undone(
    is_enabled: bool, expires_at: datetime | None, revoked_at: datetime | None, state: KeyState
) -> None:
    assert (
        state_of_key(is_enabled=is_enabled, expires_at=expires_at, revoked_at=revoked_at, now=NOW)
        is state
    )
