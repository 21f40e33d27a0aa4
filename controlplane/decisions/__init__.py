"""The pure rules of this plane: values in, values out.

Belongs here: what a fact means for the ledger, when an alert is due, what a budget says. Does not
belong here: Django, a clock, randomness, logging or I/O; `now` is an argument. To add one: write a
module named for its noun and call it from a service or a process that gathers the facts.
"""
