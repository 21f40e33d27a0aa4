"""The one-machine installation: everything Headworks needs, started and ended on this machine.

Belongs here: the launcher and its guardian, the embedded PostgreSQL and Valkey, the engine's
environment, the demo's contents, and back-up and restore, which bring PostgreSQL's tools along and
serve a database of one's own as well. Runs before any of them is there, so only the standard
library is imported (and `inference.contract`); Django is started as a child, never imported. Does
not belong here: anything else a production installation would need too. To add a process: describe
it in `bringup`, and give its kind a stage in `guardian`. To add a command: name it in `__main__`.
"""
