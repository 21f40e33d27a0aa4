"""How often a state store did each command, by its own count."""

from collections import Counter

from redis import Redis

INSIDE = ("hget", "hmget", "hgetall", "hset", "hincrby", "hdel", "hlen", "pexpire", "time")
"""What scripts of limits do to hashes; nobody does it outside of them but once a life."""


def calls_of(admin: "Redis[bytes]") -> Counter[str]:
    """How often the store did each command, those inside scripts among them."""
    stats = admin.info("commandstats")
    return Counter({name.removeprefix("cmdstat_"): one["calls"] for name, one in stats.items()})


def told(calls: Counter[str], thousands: float) -> str:
    """All commands of a thousand requests in words, those of clients first, then scripts' own."""
    of_scripts = sum(calls[name] for name in INSIDE)
    of_clients = {name: each for name, each in calls.most_common() if name not in INSIDE}
    words = ", ".join(f"{name} {each / thousands:.1f}" for name, each in of_clients.items() if each)
    return (
        f"{sum(of_clients.values()) / thousands:.0f} commands in all ({words});"
        f" {of_scripts / thousands:.0f} inside scripts"
    )
