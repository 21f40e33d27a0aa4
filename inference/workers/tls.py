"""Whom a process trusts when it calls a server by TLS."""

import ssl
from pathlib import Path


def client_context(ca_bundle: Path | None) -> ssl.SSLContext:
    """What the system trusts, and the authorities of a file of certificates besides.

    Raises OSError if there is no such file or it holds none.
    """
    context = ssl.create_default_context()
    if ca_bundle is not None:
        context.load_verify_locations(cafile=ca_bundle)
    return context
