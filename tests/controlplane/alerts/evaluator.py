"""The jobs of alerts in a process of their own, again and again, without a broker in between."""

import os
import signal
import sys
import time
from importlib import import_module
from types import FrameType

import django


def main() -> None:
    """Do both jobs until told to stop; whoever is killed in the middle leaves it to the others."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")
    django.setup()
    # what it imports needs Django to be set up
    tasks = import_module("controlplane.tasks.alerts")

    def leave(number: int, frame: FrameType | None) -> None:
        sys.exit(0)

    signal.signal(signal.SIGTERM, leave)
    while True:
        tasks.evaluate_rules()
        tasks.deliver()
        time.sleep(0.05)


if __name__ == "__main__":
    main()
