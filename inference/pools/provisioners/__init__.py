"""The ways of getting workers, one file each, named as in `kinds.Provisioner`.

Belongs here: implementations of `pools.base.PoolProvisioner`. Does not belong here: anything two
of them share (that is beside this folder) and decisions about workers. To add one: see the charter
of `inference.pools`.
"""
