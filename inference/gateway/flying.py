"""Requests that are alike at the same time: one is sent, the others wait for its answer."""

import asyncio
from typing import TYPE_CHECKING

from inference.caches.base import Entry
from inference.caches.flight import Ticket, Turn
from inference.contract.kinds import CacheTier
from inference.gateway.cached import Caching
from inference.gateway.keepalive import KeepAlive
from inference.gateway.relay import sooner

if TYPE_CHECKING:
    from inference.gateway.exchange import Exchange

JOIN_S = 30.0
"""So long a request waits for another's answer; then it goes its own way."""
_FIRST_LOOK_S = 0.02
_LONGEST_LOOK_S = 0.25


async def joined(exchange: "Exchange", caching: Caching, alive: KeepAlive | None) -> Entry | None:
    """The answer of an identical request that is under way, here or at another gateway.

    None: this one is to be sent, and others may wait for it from now on.
    """
    if not caching.may_join:
        return None
    until_s = exchange.services.stopwatch() + JOIN_S
    ticket = caching.caches.flights.board(caching.asked.key)
    if ticket is not None:
        landing = await _landing(exchange, ticket, until_s, alive)
        if isinstance(landing, Turn):
            if landing is Turn.ALONE:
                return None
        elif caching.is_alive(landing, exchange.services.clock()):
            return landing
        else:
            return None
    caching.leads = True
    if CacheTier.SHARED not in caching.policy.tiers:
        return None
    entry = await _elsewhere(exchange, caching, until_s, alive)
    if entry is not None:
        caching.leads = False
        caching.caches.flights.land(caching.asked.key, entry)
    return entry


async def _landing(
    exchange: "Exchange", ticket: Ticket, until_s: float, alive: KeepAlive | None
) -> Entry | Turn:
    """What becomes of a request that waits in this process."""
    try:
        while not ticket.landing.done():
            left_s = until_s - exchange.services.stopwatch()
            if left_s <= 0:
                ticket.leave()  # else it would be handed the lead, and the others wait for nobody
                return Turn.ALONE
            silence_s = None if alive is None else alive.left_s
            await asyncio.wait({ticket.landing}, timeout=sooner(left_s, silence_s))
            await _comment_if_due(alive)
        landing = ticket.landing.result()
    except BaseException:
        ticket.leave()
        raise
    return landing


async def _elsewhere(
    exchange: "Exchange", caching: Caching, until_s: float, alive: KeepAlive | None
) -> Entry | None:
    """The answer of another gateway that is at it; None if this one is to have it made: there is no
    other, or it has ended without an answer that others may have.
    """
    services, shared = exchange.services, caching.caches.shared
    pause_s = _FIRST_LOOK_S
    told = await shared.lead(caching.asked)
    is_flying = told is False
    while is_flying and services.stopwatch() < until_s:
        await asyncio.sleep(pause_s)
        await _comment_if_due(alive)
        pause_s = min(pause_s * 2, _LONGEST_LOOK_S)
        told = await shared.look(caching.asked)
        is_flying = told is True
    if isinstance(told, Entry) and caching.is_alive(told, services.clock()):
        return told
    return None


async def _comment_if_due(alive: KeepAlive | None) -> None:
    if alive is not None and alive.left_s == 0:
        await alive.comment()
