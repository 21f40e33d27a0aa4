"""The pages of programs and their tokens. A token's text is on one page once."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone

from controlplane.console.acting import ActPage
from controlplane.console.api_calls import changing
from controlplane.console.carrying import Base
from controlplane.console.creating import CreatePage
from controlplane.console.deleting import DeletePage
from controlplane.console.details import DetailPage, Fact, State
from controlplane.console.editing import EditPage
from controlplane.console.formats import clock
from controlplane.console.forms.base import NounForm
from controlplane.console.forms.users import ServiceAccountForm, TokenForm
from controlplane.console.lists import Empty, ListPage
from controlplane.console.nouns import BINDINGS, SERVICE_ACCOUNTS, USERS
from controlplane.console.pages import Action, Crumb
from controlplane.console.reviews import Impact, Reach, checks_of
from controlplane.console.role_words import place_words
from controlplane.console.tables.users import ServiceAccountTable, held_here, revoke_link
from controlplane.console.views.users import AT_ONCE, require_whole
from controlplane.errors import Conflict, Invalid
from controlplane.models import ApiToken, ServiceAccount
from controlplane.selectors.filters import ServiceAccountFilters
from controlplane.selectors.users import list_service_accounts, list_tokens
from controlplane.services.actors import Actor
from controlplane.services.drafts import Draft
from controlplane.services.users import (
    IssuedToken,
    create_service_account,
    delete_service_account,
    issue_token,
    revoke_token,
    update_service_account,
)

SHOWN_ONCE = "console/users/token_shown.html"


class _Crumbs:
    """Programs stand below people."""

    def crumbs(self) -> Sequence[Crumb]:
        above = (Crumb("Admin"), Crumb(USERS.title, USERS.list_url()))
        return (*above, *super().crumbs()[1:])  # type: ignore[misc]


class ServiceAccountList(_Crumbs, ListPage):
    noun = SERVICE_ACCOUNTS
    selector = staticmethod(list_service_accounts)
    template_name = "console/users/part_list.html"
    filters = ServiceAccountFilters
    table = ServiceAccountTable
    hidden_filters = ListPage.hidden_filters | {"name"}
    api_orders: ClassVar[Mapping[str, str]] = {"name": "name"}
    empty = Empty(
        "No service account yet",
        "A service account is a program that calls the REST API, with roles and tokens of its own.",
    )

    def rows(self) -> Any:
        require_whole(self.scope.access, self.scope.organisation.pk)
        return super().rows()


class ServiceAccountDetail(_Crumbs, DetailPage):
    noun = SERVICE_ACCOUNTS
    selector = staticmethod(list_service_accounts)
    template_name = "console/users/service_account.html"
    is_name_mono = False

    def state_of(self, row: ServiceAccount) -> State:
        return State("enabled") if row.is_enabled else State("off", "stop", "idle")

    def actions_of(self, row: ServiceAccount) -> Sequence[Action]:
        found = super().actions_of(row)
        if not found:
            return ()
        act = "disable" if row.is_enabled else "enable"
        url = reverse(f"service-account-{act}", args=[row.pk])
        delete, edit = found
        return (delete, Action(act.capitalize(), url), edit)

    def facts_of(self, row: ServiceAccount) -> Sequence[Fact]:
        return (
            Fact("Made", clock(row.created_at, self.scope.zone)),
            Fact("Id", row.pk, is_mono=True),
            Fact("Version", str(row.version)),
        )

    def extra(self, row: ServiceAccount, tab: str) -> Mapping[str, Any]:
        home, now = self.scope.organisation.pk, timezone.now()
        may_tokens, may_grant = self.may_write("tokens"), self.may_write(BINDINGS.key)
        tokens = list_tokens(self.scope.access).filter(service_account=row).order_by("-created_at")
        create = reverse("token-create", args=[row.pk])
        return {
            "tokens": [(one, _token_state(one, now)) for one in tokens],
            "token_url": create if may_tokens and row.is_enabled else "",
            "may_tokens": may_tokens,
            "held": [
                (one, place_words(one), revoke_link(one) if may_grant else "")
                for one in held_here(row, home)
            ],
            "grant_url": f"{BINDINGS.create_url()}?subject=program:{row.pk}" if may_grant else "",
        }


class ServiceAccountCreate(_Crumbs, CreatePage):
    noun = SERVICE_ACCOUNTS
    form_class = ServiceAccountForm

    def carry_out(self, actor: Actor, values: dict[str, Any]) -> ServiceAccount:
        return create_service_account(actor, organisation=self.scope.organisation, **values)


class _OfAccount(_Crumbs, EditPage):
    noun = SERVICE_ACCOUNTS
    selector = staticmethod(list_service_accounts)
    form_class = ServiceAccountForm

    def words_of(self, row: Any, changes: Mapping[str, Any], draft: Draft) -> str:
        return AT_ONCE

    def carry_out(
        self, actor: Actor, row: Any, changes: dict[str, Any], expected_version: int | None
    ) -> object:
        return update_service_account(
            actor,
            service_account_id=row.pk,
            changes=changes,
            expected_version=expected_version,
            keep_admin=not self.scope.access.is_platform_admin,
        )


class ServiceAccountEdit(_OfAccount):
    pass


class ServiceAccountAct(_OfAccount, ActPage):
    """Let the program's tokens in, or keep them out."""

    verbs: ClassVar[Mapping[str, str]] = {"enable": "Enable", "disable": "Disable"}

    def values_of(self, row: ServiceAccount) -> Mapping[str, Any]:
        wanted = self.act == "enable"
        if row.is_enabled == wanted:
            raise Conflict("This is so already.")
        return {"is_enabled": wanted}

    def impact(self, row: Any, changes: Mapping[str, Any], draft: Draft) -> Impact:
        live = row.tokens.filter(revoked_at=None).count()
        words = f"{live} not revoked, {'accepted' if self.act == 'enable' else 'refused'} from now"
        return Impact(reach=(Reach("Tokens", words),), checks=checks_of(draft, self.noun.key))


class ServiceAccountDelete(_Crumbs, DeletePage):
    noun = SERVICE_ACCOUNTS
    selector = staticmethod(list_service_accounts)

    def carry_out(self, actor: Actor, row: Any, expected_version: int | None) -> object:
        return delete_service_account(
            actor,
            service_account_id=row.pk,
            expected_version=expected_version,
            keep_admin=not self.scope.access.is_platform_admin,
        )

    def words_of(self, row: Any, changes: Mapping[str, Any], draft: Draft) -> str:
        return "Its roles and tokens go with it, and its calls are refused at once."


class _TokenPage(_Crumbs, EditPage):
    """A form about a program's tokens."""

    noun = SERVICE_ACCOUNTS
    selector = staticmethod(list_service_accounts)
    form_class: ClassVar[type[NounForm]] = TokenForm
    step_title: ClassVar[str]

    def get_row(self, pk: str) -> ServiceAccount:
        row: ServiceAccount = self.found(list_service_accounts(self.scope.access), pk)
        self.require_write("tokens")
        self.row = row
        return row

    def own_crumbs(self) -> Sequence[Crumb]:
        first, *_ = super().own_crumbs()
        return (first, Crumb(self.step_title))

    def ask(self, row: ServiceAccount, form: NounForm, verb: str, **more: Any) -> HttpResponse:
        context = {
            "row": row,
            "title": f"{self.step_title} of {row.name}",
            "cancel": self.noun.detail_url(row.pk),
            "next_step": "save",
            "verb": verb,
            **more,
        }
        return self.show_form(form, Base(row.version, {}), context)


class TokenCreate(_TokenPage):
    """A new token, on the answer's page alone."""

    step_title = "New token"

    def get(self, request: HttpRequest, pk: str) -> HttpResponse:
        """Ask when it ends."""
        row = self.get_row(pk)
        initial = {"expires_at": TokenForm.usual_end()}
        return self.ask(row, TokenForm(scope=self.scope, row=row, initial=initial), "Make token")

    def post(self, request: HttpRequest, pk: str) -> HttpResponse:
        """Make it, and show its text this once."""
        row = self.get_row(pk)
        Base.read(request.POST)
        form = TokenForm(request.POST, scope=self.scope, row=row)
        if not form.is_valid():
            return self.ask(row, form, "Make token")
        try:
            issued = issue_token(
                self.actor(), service_account=row, expires_at=form.cleaned_data["expires_at"]
            )
        except Invalid as error:
            form.refuse(error)
            return self.ask(row, form, "Make token")
        return self.render(self._shown_once(row, issued), template=SHOWN_ONCE)

    def _shown_once(self, row: ServiceAccount, issued: IssuedToken) -> dict[str, Any]:
        address = self.request.build_absolute_uri(reverse("api-me-list"))
        return {
            "row": row,
            "title": f"New token of {row.name}",
            "text": issued.text,
            "token": issued.token,
            "call": f'curl -H "Authorization: Bearer {issued.text}" {address}',
            "done": self.noun.detail_url(row.pk),
        }


class TokenRevoke(_TokenPage):
    """The end of a token, for good."""

    step_title = "Revoke a token"
    form_class = NounForm
    template_name = "console/users/token_revoke.html"

    def get(self, request: HttpRequest, pk: str, token: str) -> HttpResponse:
        """Say what it does."""
        row = self.get_row(pk)
        return self._asked(row, self._token(row, token))

    def post(self, request: HttpRequest, pk: str, token: str) -> HttpResponse:
        """Revoke it."""
        row = self.get_row(pk)
        found = self._token(row, token)
        Base.read(request.POST)
        if not self.reason():
            return self._asked(row, found, "Give a reason. It is kept in the audit log.")
        revoke_token(self.actor(self.reason()), token_id=found.pk)
        return self.saved(self.noun.detail_url(row.pk))

    def _token(self, row: ServiceAccount, pk: str) -> ApiToken:
        return self.found(list_tokens(self.scope.access).filter(service_account=row), pk)

    def _asked(self, row: ServiceAccount, token: ApiToken, problem: str = "") -> HttpResponse:
        path = f"{reverse('api-token-detail', args=[token.pk])}revoke/"
        return self.ask(
            row,
            NounForm(scope=self.scope, row=row),
            "Revoke token",
            token=token,
            problem=problem,
            reason=self.reason(),
            api=changing(self.request, "POST", path, reason="REASON"),
        )


def _token_state(token: ApiToken, now: Any) -> tuple[str, str, str]:
    if token.revoked_at is not None:
        return "revoked", "stop", "idle"
    if token.expires_at is not None and token.expires_at <= now:
        return "expired", "clock", "idle"
    return "accepted", "ok", "ok"
