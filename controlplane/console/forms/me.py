"""Forms of a person's own page."""

from typing import Any

from django.contrib.auth import password_validation
from django.forms import CharField, Form, PasswordInput

from controlplane.models import User

_LONGEST = 4_096


def _password(label: str, autocomplete: str) -> CharField:
    attrs = {"autocomplete": autocomplete, "class": "form-control"}
    return CharField(
        label=label, strip=False, max_length=_LONGEST, widget=PasswordInput(attrs=attrs)
    )


class ConfirmForm(Form):
    """The reader's password, to show that it is the reader who asks."""

    current = _password("Your password", "current-password")

    def __init__(self, *args: Any, user: User, **options: Any) -> None:
        super().__init__(*args, **options)
        self._user = user

    def clean_current(self) -> str:
        given: str = self.cleaned_data["current"]
        if not self._user.check_password(given):
            self.add_error("current", "This is not your password.")
        return given


class PasswordForm(ConfirmForm):
    """A new password, twice."""

    new = _password("New password", "new-password")
    again = _password("New password again", "new-password")

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.fields["new"].help_text = " ".join(
            password_validation.password_validators_help_texts()
        )

    def clean(self) -> dict[str, Any]:
        values: dict[str, Any] = super().clean() or {}
        if "new" in values and "again" in values and values["new"] != values["again"]:
            self.add_error("again", "The two are not the same.")
        return values
