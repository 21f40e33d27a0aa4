"""How a route puts its targets in order.

Belongs here: one file a strategy under `strategies/`, the protocol they share (`base`) and the list
of them (`registry`). Does not belong here: picking a worker inside a target's pool. To add one:
name it in `contract.kinds.Strategy`, write `strategies/<kind>.py` with a function `order_targets`,
list it in `registry`.
"""
