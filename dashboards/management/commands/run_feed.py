"""`manage.py run_feed`: the feed process."""

import asyncio
import signal
from collections.abc import Callable
from datetime import datetime

import structlog
from channels.layers import get_channel_layer
from django.conf import settings
from django.core.management.base import BaseCommand
from django.db import close_old_connections
from psycopg.conninfo import make_conninfo

from controlplane.bridge.sampler import sample
from controlplane.bridge.vitals import read_fleet
from controlplane.environment import CHANNEL_DATABASE
from controlplane.services.live import tidy
from dashboards.base import Scene
from dashboards.feed import Feed, Work
from dashboards.lead import Lead
from dashboards.scenes import read_newest
from dashboards.scopes import LiveScope
from dashboards.watching import connect_watched, list_watched

log = structlog.get_logger(__name__)


class Command(BaseCommand):
    help = "Sample the fleet's figures and feed the live pages until told to stop (SIGTERM)."
    requires_system_checks = ()

    def handle(self, *args: object, **options: object) -> None:
        log.info("feed started")
        asyncio.run(_run())
        log.info("feed stopped")


async def _run() -> None:
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    await Feed(make_work(), get_channel_layer()).run(stopping)


def make_work() -> Work:
    """The real thing: this installation's database and stores."""
    lead = Lead(make_conninfo(**settings.HEADWORKS.connection))
    store = connect_watched(settings.HEADWORKS.state_database(CHANNEL_DATABASE))

    def holds_lead() -> bool:
        # a connection the database has dropped is given back before it is used again
        close_old_connections()
        return lead.holds()

    return Work(
        holds_lead=holds_lead,
        sample=sample,
        tidy=lambda now: tidy(now).is_behind,
        list_watched=lambda: list_watched(store),
        read_scene=_read_scene,
        release=lead.release,
    )


def _read_scene(now: datetime) -> Callable[[LiveScope], Scene]:
    fleet = read_fleet()
    return lambda scope: read_newest(scope, now, fleet)
