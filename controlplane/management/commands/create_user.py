"""Make a person who can sign in to the console."""

import secrets
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand
from django.db import transaction

from controlplane.management.refusals import refusals_told
from controlplane.models import Role
from controlplane.selectors.organisations import get_organisation_named
from controlplane.services.actors import Via, system_actor
from controlplane.services.users import create_user, grant_role

PASSWORD_BYTES = 18


class Command(BaseCommand):
    help = "Make a person; the password is generated and goes to standard output, this once."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("username")
        parser.add_argument("--organisation", required=True, help="name or id")
        parser.add_argument("--role", choices=[role.value for role in Role], required=True)

    def handle(self, *args: Any, **options: Any) -> None:
        actor = system_actor("create_user", via=Via.COMMAND)
        password = secrets.token_urlsafe(PASSWORD_BYTES)
        with refusals_told(), transaction.atomic():
            organisation = get_organisation_named(options["organisation"])
            user = create_user(actor, username=options["username"], password=password)
            role = Role(options["role"])
            grant_role(actor, subject=user, organisation=organisation, role=role)
        self.stderr.write(f"password of {user.get_username()}, shown this once:")
        self.stdout.write(password)
