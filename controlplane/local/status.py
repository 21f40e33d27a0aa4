"""What is on record in a VAR, and whether it lives."""

from controlplane.local.launcher_lock import running_launcher
from controlplane.local.places import Places
from controlplane.local.processes import is_leader_alive, members_of, read_records
from controlplane.local.settings import LocalSettings


def show_status(places: Places, settings: LocalSettings) -> int:
    """Print the launcher and every recorded group; 0 if a launcher runs, else 3."""
    launcher = running_launcher(places)
    print(f"Headworks in {places.var}: {f'runs, process {launcher}' if launcher else 'stopped'}")
    if launcher:
        print(f"console {settings.console_url}/  gateway {settings.gateway_url}/v1")
    for record in read_records(places.groups):
        state = "up" if is_leader_alive(record) else "gone"
        count = len(members_of(record))
        print(
            f"  {record.name:<24} {record.kind:<10} {state:<5} pid {record.pid} ({count} running)"
        )
    return 0 if launcher else 3
