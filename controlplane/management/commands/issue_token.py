"""Give a program a token of the REST API; the account is made if it isn't there."""

from argparse import ArgumentParser, ArgumentTypeError
from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand
from django.db import transaction
from django.utils import timezone

from controlplane.management.refusals import refusals_told
from controlplane.models import Role
from controlplane.selectors.organisations import get_organisation_named
from controlplane.selectors.tokens import get_service_account_named
from controlplane.services.actors import Via, system_actor
from controlplane.services.users import create_service_account, grant_role, issue_token

MAX_DAYS = 36_500


def _days(text: str) -> int:
    if not (text.isdecimal() and 1 <= int(text) <= MAX_DAYS):
        raise ArgumentTypeError(f"give a whole number of days, 1 to {MAX_DAYS:,}")
    return int(text)


class Command(BaseCommand):
    help = "Issue a token; its text goes to standard output, this once."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--organisation", required=True, help="name or id")
        parser.add_argument("--account", required=True, help="name of the service account")
        parser.add_argument("--role", choices=[role.value for role in Role])
        parser.add_argument("--expires-days", type=_days)

    def handle(self, *args: Any, **options: Any) -> None:
        actor = system_actor("issue_token", via=Via.COMMAND)
        days = options["expires_days"]
        expires_at = None if days is None else timezone.now() + timedelta(days=days)
        with refusals_told(), transaction.atomic():
            organisation = get_organisation_named(options["organisation"])
            account = get_service_account_named(organisation, options["account"])
            if account is None:
                account = create_service_account(
                    actor, organisation=organisation, name=options["account"]
                )
            if options["role"]:
                role = Role(options["role"])
                grant_role(actor, subject=account, organisation=organisation, role=role)
            issued = issue_token(actor, service_account=account, expires_at=expires_at)
        self.stderr.write(f"token {issued.token.pk} of {account.name}, shown this once:")
        self.stdout.write(issued.text)
