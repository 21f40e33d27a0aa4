"""End a token of the REST API for good."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from controlplane.management.refusals import refusals_told
from controlplane.services.actors import Via, system_actor
from controlplane.services.users import revoke_token


class Command(BaseCommand):
    help = "Revoke a token by its id, which is tok_ and what its text has between hwt_ and the dot."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("id")

    def handle(self, *args: Any, **options: Any) -> None:
        with refusals_told():
            token = revoke_token(
                system_actor("revoke_token", via=Via.COMMAND), token_id=options["id"]
            )
        self.stdout.write(f"{token.pk} revoked at {token.revoked_at:%Y-%m-%d %H:%M:%S} UTC")
