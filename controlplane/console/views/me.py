"""A person's own page: who he is here, what he may do and why, his password and sessions."""

from collections.abc import Mapping
from typing import Any

from django.contrib import messages
from django.contrib.auth import update_session_auth_hash
from django.forms import Form
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from controlplane.console.forms.me import ConfirmForm, PasswordForm
from controlplane.console.pages import Crumb
from controlplane.console.scope import Scope, personal
from controlplane.errors import Invalid
from controlplane.middleware import request_id_of
from controlplane.models import User
from controlplane.selectors.me import list_my_roles
from controlplane.services.actors import Actor, Via, user_actor
from controlplane.services.users import set_password

_ME = "Me"


@require_safe
@personal
def me(request: HttpRequest, scope: Scope | None) -> HttpResponse:
    """Show the reader's profile, roles with their origin, sessions and ways to change them."""
    user = _reader(request)
    context = {
        "title": _ME,
        "roles": list_my_roles(user),
        "expires": request.session.get_expiry_date(),
        "is_lasting": not request.session.get_expire_at_browser_close(),
    }
    return _page(request, scope, "console/me/page.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@personal
def my_password(request: HttpRequest, scope: Scope | None) -> HttpResponse:
    """Change the reader's password, which ends all other sessions."""
    user = _reader(request)
    form = PasswordForm(request.POST or None, user=user)
    if request.method == "POST" and form.is_valid():
        try:
            changed = set_password(
                _actor(request), user_id=user.pk, password=form.cleaned_data["new"]
            )
        except Invalid as error:
            for message in error.fields.get("password", (error.detail,)):
                form.add_error("new", message)
        else:
            update_session_auth_hash(request, changed)
            return _done(request, "Your password is changed. All other sessions have ended.")
    return _form_page(request, scope, form, "Change my password", "Change password")


@require_http_methods(["GET", "HEAD", "POST"])
@personal
def my_sessions(request: HttpRequest, scope: Scope | None) -> HttpResponse:
    """End every session of the reader's but this one."""
    user = _reader(request)
    form = ConfirmForm(request.POST or None, user=user)
    if request.method == "POST" and form.is_valid():
        # sessions are bound to the stored form of the password, which is another one each time
        kept = form.cleaned_data["current"]
        try:
            changed = set_password(_actor(request), user_id=user.pk, password=kept)
        except Invalid:
            form.add_error("current", "It is too weak by now: change it, which ends them too.")
        else:
            update_session_auth_hash(request, changed)
            return _done(request, "All other sessions have ended. This one goes on.")
    return _form_page(request, scope, form, "End my other sessions", "End them")


@require_safe
def reset_is_off(request: HttpRequest) -> HttpResponse:
    """Say who can give a new password, for no mail can."""
    return render(request, "account/reset_off.html")


def _reader(request: HttpRequest) -> User:
    assert isinstance(request.user, User)
    return request.user


def _actor(request: HttpRequest) -> Actor:
    return user_actor(_reader(request), via=Via.CONSOLE, request_id=request_id_of(request))


def _done(request: HttpRequest, words: str) -> HttpResponse:
    messages.info(request, words)
    return redirect("me")


def _form_page(
    request: HttpRequest, scope: Scope | None, form: Form, title: str, verb: str
) -> HttpResponse:
    context = {"title": title, "form": form, "verb": verb}
    status = 200 if request.method != "POST" else 422
    return _page(request, scope, "console/me/form.html", context, status=status)


def _page(
    request: HttpRequest,
    scope: Scope | None,
    template: str,
    context: Mapping[str, Any],
    status: int = 200,
) -> HttpResponse:
    title = context["title"]
    crumbs = (Crumb(_ME),) if title == _ME else (Crumb(_ME, "/me/"), Crumb(title))
    shared = {"scope": scope, "zone": scope.zone if scope else None, "crumbs": crumbs}
    return render(request, template, {**shared, **context}, status=status)
