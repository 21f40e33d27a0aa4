"""Answers that are kept: where they stand, who waits for one that is being made.

What belongs: tiers and what they hold, the chain that asks one after the other, flights, the client
of the cache store. What does not: what may be kept and under which key (`decisions.caching`), how
an answer is told again (`decisions.replaying`), the caller (`gateway.cached`). To add a tier, write
`tiers/<kind>.py`, give it a kind in `contract.kinds.CacheTier`, and name it in `registry.py`.
"""
