"""The one-machine installation: everything Headworks needs, started and ended on this machine.

Belongs here: the launcher and its guardian, the embedded PostgreSQL and Valkey, the engine's
environment, the demo's contents. Runs before any of them is there, so only the standard library is
imported (and `inference.contract`); Django is started as a child, never imported. Does not belong
here: anything a production installation would need too. To add a process: describe it in `plan`,
and give its kind a stage in `guardian`.
"""
