"""Which provisioner serves which kind of pool."""

from collections.abc import Callable, Mapping

from inference.contract.kinds import Provisioner
from inference.pools.base import Host, PoolProvisioner
from inference.pools.provisioners import fake, process, static

REGISTRY: Mapping[Provisioner, Callable[[Host], PoolProvisioner]] = {
    Provisioner.STATIC: static.build,
    Provisioner.PROCESS: process.build,
    Provisioner.FAKE: fake.build,
}


def build_provisioners(host: Host) -> Mapping[Provisioner, PoolProvisioner]:
    """Make every provisioner for one host."""
    return {kind: build(host) for kind, build in REGISTRY.items()}
