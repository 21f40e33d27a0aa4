"""How people sign in: by name or e-mail and password; accounts are made by administrators."""

from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from django.http import HttpRequest


class ClosedAccountAdapter(DefaultAccountAdapter):
    """Nobody signs up by himself."""

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return False

    def set_password(self, user: Any, password: str) -> None:
        """Keep a password its owner chose, which opens what a password of our making doesn't."""
        user.must_change_password = False
        super().set_password(user, password)
