"""Configuration in: from the state store or the disk into the one snapshot a process runs on.

Belongs here: sources of sealed snapshots, and the holder that checks and swaps them. Does not
belong here: what a setting means (that is for `inference.decisions`) or who reads it. To add a
source: implement `source.SnapshotSource` and hand it to `SnapshotHolder.take`.
"""
