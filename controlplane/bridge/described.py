"""The fleet as a gateway process would decide on it now, as far as the vitals tell."""

from controlplane.bridge.vitals import read_fleet
from controlplane.decisions.described import Described, describe
from inference.contract.kinds import ProcessRole
from inference.contract.snapshot import ConfigSnapshot


def read_described(
    snapshot: ConfigSnapshot, *, organisation_id: str, process: str | None, now_s: float
) -> Described:
    """The fleet of an organisation; without a state store, what the configuration alone says."""
    fleet = read_fleet()
    vitals = () if fleet is None else fleet.vitals
    return describe(
        snapshot,
        () if fleet is None or fleet.workers is None else fleet.workers,
        [one for one in vitals if one.role is ProcessRole.GATEWAY],
        [one for one in vitals if one.role is ProcessRole.POOLS],
        organisation_id=organisation_id,
        process=process,
        now_s=now_s,
    )
