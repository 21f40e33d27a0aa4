"""The console as an ASGI application: pages and API over HTTP, live pages over websockets."""

import gc
import os
from importlib import import_module

from channels.routing import ProtocolTypeRouter
from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")

# what is imported stays, and looking through it for garbage is a tenth of a start
gc.disable()

_pages = get_asgi_application()

# imports models, so not before the apps are loaded
from dashboards.routing import make_websocket_application, open_watches  # noqa: E402

application = ProtocolTypeRouter(
    {"http": _pages, "websocket": make_websocket_application(open_watches())}
)

# or the first request would wait for it
import_module("controlplane.urls")
gc.freeze()
gc.enable()
