"""Writes: one function an intent, one transaction each, one file a noun.

Belongs here: lock, write only what is named, audit, stage the snapshot. Does not belong here: who
may do it (the caller asked `selectors.access`), requests and forms. Every function takes the actor
first and keywords after. To add one: follow the nearest file; if it touches what gateways read,
run it inside `snapshots.configuration_edit` and end it with `snapshots.stage`.
"""
