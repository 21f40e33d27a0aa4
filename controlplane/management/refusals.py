"""How a command tells what a service refused."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.core.management.base import CommandError

from controlplane.errors import ControlPlaneError


@contextmanager
def refusals_told() -> Iterator[None]:
    """Turn a service's refusal into the command's, with the fields at fault."""
    try:
        yield
    except ControlPlaneError as error:
        fields = [f"{name}: {' '.join(said)}" for name, said in error.fields.items()]
        raise CommandError(" ".join([error.detail, *fields])) from error
