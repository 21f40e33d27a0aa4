"""Sessions and cached values in the state store."""

import pytest
from django.conf import settings
from django.core.cache import cache
from django.test import Client
from redis import Redis

from controlplane.environment import CACHE_DATABASE, with_database
from controlplane.services.actors import Actor
from controlplane.services.users import create_user
from controlplane.sessions import JsonSerializer, SessionStore


@pytest.mark.parametrize("value", ["text", 7, 1.5, True, None, [1, "a"], {"a": {"b": None}}])
def test_what_is_cached_comes_back(value: object) -> None:
    cache.set("tests:value", value, 60)
    assert cache.get("tests:value", "missing") == value


def test_numbers_can_be_counted_in_the_store() -> None:
    cache.set("tests:count", 1, 60)
    assert cache.incr("tests:count", 2) == 3


def test_nothing_that_runs_code_is_ever_loaded() -> None:
    with pytest.raises(ValueError, match="invalid start byte"):
        JsonSerializer().loads(b"\x80\x04\x95\x0f\x00\x00\x00")


def test_a_session_is_kept_in_its_own_database_as_json(db: None, actor: Actor) -> None:
    user = create_user(actor, username="ann", password="a long pass 1")
    client = Client()
    client.force_login(user)
    key = client.cookies[settings.SESSION_COOKIE_NAME].value
    url = with_database(settings.HEADWORKS.state_url.get_secret_value(), CACHE_DATABASE)
    with Redis.from_url(url) as store:
        (name,) = [one for one in store.keys() if key.encode() in one]
        held = store.get(name)
    assert isinstance(held, bytes)
    assert held.startswith(b'{"_auth_user_id"')


def test_an_unknown_session_is_an_empty_one() -> None:
    store = SessionStore("abcdefghijklmnopqrstuvwxyz012345")
    assert dict(store.items()) == {}
    assert store.session_key is None


def test_the_cookies_are_out_of_reach_of_scripts_and_other_sites(db: None, actor: Actor) -> None:
    create_user(actor, username="ann", password="a long pass 1")
    client = Client()
    client.post("/accounts/login/", {"login": "ann", "password": "a long pass 1"})
    cookie = client.cookies[settings.SESSION_COOKIE_NAME]
    assert (cookie["httponly"], cookie["samesite"], cookie["path"]) == (True, "Lax", "/")
