"""Where sockets are answered. Only pages of this site may open one."""

from typing import Any

from channels.routing import URLRouter
from channels.security.websocket import AllowedHostsOriginValidator
from channels.sessions import CookieMiddleware
from django.conf import settings
from django.urls import re_path

from controlplane.environment import CHANNEL_DATABASE
from dashboards.consumers import LiveConsumer
from dashboards.watching import Watches


def open_watches() -> Watches:
    """The watches of this process, in the channel layer's database."""
    return Watches(settings.HEADWORKS.state_database(CHANNEL_DATABASE))


def make_websocket_application(watches: Watches, **options: Any) -> Any:
    """The ASGI application of all sockets; `options` are the consumer's."""
    consumer = LiveConsumer.as_asgi(watches=watches, **options)
    routes = [re_path(r"^ws/live/(?P<page>[a-z]+)/$", consumer)]
    return AllowedHostsOriginValidator(CookieMiddleware(URLRouter(routes)))
