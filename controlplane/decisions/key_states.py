"""What may still be done with a key, and what ending it would touch."""

from datetime import datetime, timedelta
from enum import StrEnum

EXPIRES_SOON = timedelta(days=14)
IN_USE = timedelta(hours=1)
"""A key used this recently is in use: whoever revokes it is asked twice."""


class KeyState(StrEnum):
    """The word of a key's state."""

    ACTIVE = "active"
    EXPIRING = "expiring"
    EXPIRED = "expired"
    DISABLED = "disabled"
    REVOKED = "revoked"


def state_of_key(
    *, is_enabled: bool, expires_at: datetime | None, revoked_at: datetime | None, now: datetime
) -> KeyState:
    """The state of a key; what is final wins over what can be undone."""
    if revoked_at is not None:
        return KeyState.REVOKED
    if expires_at is not None and expires_at <= now:
        return KeyState.EXPIRED
    if not is_enabled:
        return KeyState.DISABLED
    if expires_at is not None and expires_at <= now + EXPIRES_SOON:
        return KeyState.EXPIRING
    return KeyState.ACTIVE
