"""Steps of degradation in words."""

from datetime import timedelta

from controlplane.selectors.live import LadderSeries
from dashboards.base import Scene


def step_words(ladder: LadderSeries, scene: Scene) -> str:
    """What is in force and since when: `2 of 3 steps (trim batch, shed batch) since 14:02`."""
    names = ", ".join(name.replace("_", " ") for name in ladder.taken)
    told = f"{len(ladder.taken)} of {len(ladder.names)} steps ({names})"
    if ladder.since is None:
        return told
    since = ladder.since.astimezone(scene.zone)
    is_old = scene.now - ladder.since > timedelta(hours=20)
    return f"{told} since {since:%-d %b %H:%M}" if is_old else f"{told} since {since:%H:%M}"
