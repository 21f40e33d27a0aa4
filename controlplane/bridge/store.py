"""How this plane opens the state store: short time-outs, no silent retries."""

from django.conf import settings
from redis import Redis
from redis.backoff import NoBackoff
from redis.retry import Retry

STORE_TIMEOUT_S = 0.5
"""A store that accepts and never answers is down; an edit doesn't wait for it."""


def open_store() -> "Redis":
    """A client of the state store, to be closed by the caller (it is a context manager)."""
    return Redis.from_url(
        settings.HEADWORKS.state_url.get_secret_value(),
        socket_timeout=STORE_TIMEOUT_S,
        socket_connect_timeout=STORE_TIMEOUT_S,
        retry=Retry(NoBackoff(), 0),
    )
