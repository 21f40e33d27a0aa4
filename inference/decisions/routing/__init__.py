"""How a route picks the worker that serves an attempt.

Belongs here: one file a strategy under `strategies/`, what they share (`base`, `draws`, `waits`)
and the list of them (`registry`). Does not belong here: who may be sent to at all
(`decisions.breaker`) and when to try again (`decisions.dispatch`). To add one: name it in
`contract.kinds.Strategy`, write `strategies/<kind>.py` with its `STRATEGY`, list it in `registry`.
"""
