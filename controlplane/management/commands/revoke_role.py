"""Take a role away from a person or a program."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from controlplane.management.refusals import refusals_told
from controlplane.services.actors import Via, system_actor
from controlplane.services.bindings import revoke_role


class Command(BaseCommand):
    help = "Revoke a role by its binding's id, bind_…, as /api/v1/bindings/ lists it."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("id")

    def handle(self, *args: Any, **options: Any) -> None:
        actor = system_actor("revoke_role", via=Via.COMMAND)
        with refusals_told():
            # whoever runs commands is the platform's administrator, and may leave none behind
            revoke_role(actor, binding_id=options["id"], keep_admin=False)
        self.stdout.write(f"{options['id']} revoked")
