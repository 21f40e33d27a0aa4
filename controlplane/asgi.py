"""The console as an ASGI application."""

import os

from channels.routing import ProtocolTypeRouter
from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")

application = ProtocolTypeRouter({"http": get_asgi_application()})
