"""Who is on the other end of a socket: asked at its door, and again while it is open."""

from dataclasses import dataclass
from enum import IntEnum
from importlib import import_module

from django.conf import settings
from django.contrib.auth import get_user
from django.http import HttpRequest, QueryDict

from controlplane.errors import Invalid, NotAllowed, NotFound
from controlplane.models import User
from controlplane.selectors.access import get_access_of_user
from dashboards.scopes import LiveScope, find_scope


class CloseCode(IntEnum):
    """Why a socket is closed. The page reads its document again on any of them."""

    BROKEN = 1011
    RESTART = 1012
    BAD_QUERY = 4400
    SIGNED_OUT = 4401
    NO_ACCESS = 4403
    NOT_FOUND = 4404


@dataclass(frozen=True, slots=True)
class Refused(Exception):
    """The reader may not watch this, or not any more."""

    code: CloseCode


def admit(session_key: str, page: str, query: str) -> LiveScope:
    """The scope this session may watch; raises Refused. Reads session, roles and rows anew."""
    user = _user_of(session_key)
    if user is None:
        raise Refused(CloseCode.SIGNED_OUT)
    try:
        return find_scope(get_access_of_user(user), page, QueryDict(query).dict())
    except NotFound as error:
        raise Refused(CloseCode.NOT_FOUND) from error
    except NotAllowed as error:
        raise Refused(CloseCode.NO_ACCESS) from error
    except Invalid as error:
        raise Refused(CloseCode.BAD_QUERY) from error


def _user_of(session_key: str) -> User | None:
    """The person a session belongs to: one whose password or sign-in changed belongs to nobody."""
    if not session_key:
        return None
    request = HttpRequest()
    request.session = import_module(settings.SESSION_ENGINE).SessionStore(session_key)
    user = get_user(request)
    return user if isinstance(user, User) and user.is_active else None
