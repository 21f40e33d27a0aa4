"""The functional core: values in, values out.

Belongs here: what to do with a request, a pool, a price, a breaker. Does not belong here: await, a
clock, randomness, logging or I/O; `now` and `u` are arguments, and a "no" is a value. To add one:
write a module named for its noun and call it from a shell that gathers the facts.
"""
