"""Keep a program out: its tokens are refused until it is switched on again."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from controlplane.management.refusals import refusals_told
from controlplane.selectors.organisations import get_organisation_named
from controlplane.selectors.tokens import get_service_account_named
from controlplane.services.actors import Via, system_actor
from controlplane.services.users import set_service_account_enabled


class Command(BaseCommand):
    help = "Switch a service account off; its tokens and roles stay for when it is on again."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--organisation", required=True, help="name or id")
        parser.add_argument("--account", required=True, help="name of the service account")

    def handle(self, *args: Any, **options: Any) -> None:
        actor = system_actor("disable_service_account", via=Via.COMMAND)
        with refusals_told():
            organisation = get_organisation_named(options["organisation"])
            account = get_service_account_named(organisation, options["account"])
            if account is None:
                raise CommandError(f"There is no service account {options['account']!r}.")
            set_service_account_enabled(actor, service_account_id=account.pk, is_enabled=False)
        self.stdout.write(f"{account.name} is switched off")
