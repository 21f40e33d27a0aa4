"""What the headers of an answer tell of how it came about, to whom."""

import json
from typing import TYPE_CHECKING

from inference.contract.kinds import Scope
from inference.gateway.headers import Headers
from inference.gateway.variants import variant_headers

if TYPE_CHECKING:
    from inference.gateway.exchange import Exchange


def disclosed(exchange: "Exchange") -> Headers:
    """What its limits leave, to which fallback it came, and the rest for keys that may know."""
    headers: Headers = () if exchange.admission is None else exchange.admission.headers()
    if exchange.degraded:
        headers += ((b"x-headworks-degraded", ",".join(exchange.degraded).encode()),)
    if exchange.caching is not None:
        headers += exchange.caching.headers(exchange)
    attempts, identity = exchange.attempts, exchange.identity
    if exchange.assignments and identity is not None and Scope.DEBUG in identity.scopes:
        headers += variant_headers(exchange)
    if identity is None or not attempts:
        return headers
    planned = attempts[-1].planned
    if planned.fallbacks:
        headers += ((b"x-headworks-fallbacks", b"%d" % planned.fallbacks),)
    if Scope.DEBUG not in identity.scopes:
        return headers
    headers += (
        (b"x-headworks-target", planned.target.id.encode()),
        (b"x-headworks-attempts", b"%d" % len(attempts)),
    )
    if exchange.downstream.headers.wants_decision:
        headers += ((b"x-headworks-decision", json.dumps(exchange.decision()).encode()),)
    return headers
