"""What a kill switch turns off, and until when."""

from dataclasses import replace

import pytest

from inference.contract.codec import assemble, index_section
from inference.contract.kinds import SwitchSubject
from inference.contract.snapshot import ConfigSnapshot, Manifest, SwitchRecord
from inference.decisions.plan import (
    LeftOut,
    LeftOutReason,
    Plan,
    Refusal,
    RefusalCode,
    RequestFacts,
    plan_request,
)
from tests.inference.gateway.rig import (
    KEY_ID,
    TOKEN,
    configuration,
    key_record,
    pool_record,
    route_record,
)

NOW = 1_764_500_000.0
KEY = key_record(TOKEN)
FACTS = RequestFacts("m", prompt_tokens_max=10)
ROUTE = route_record("a", "b")
URL = "http://127.0.0.1:1/v1"


def switch(
    subject: SwitchSubject, subject_id: str | None = None, **changes: object
) -> SwitchRecord:
    record = SwitchRecord(f"sw_{subject}", "org_a", subject, subject_id, reason="Drill")
    return replace(record, **changes)  # type: ignore[arg-type]


def thrown(*switches: SwitchRecord) -> ConfigSnapshot:
    """Two pools of one route, and these switches."""
    plain = configuration(pool_record("a", URL), pool_record("b", URL), routes=(ROUTE,))
    sections = {
        name: getattr(plain, name)
        for name in ("organisations", "models", "prices", "pools", "routes")
    }
    sections["switches"] = index_section("switches", switches)
    return assemble(Manifest("L1", 8, {}, 0.0), sections)


def decided(*switches: SwitchRecord, now: float = NOW) -> Plan | Refusal:
    return plan_request(thrown(*switches), KEY, request=FACTS, now=now, u=0.0)


@pytest.mark.parametrize(
    ("subject", "subject_id", "is_met"),
    [
        (SwitchSubject.ORGANISATION, None, True),
        (SwitchSubject.PROJECT, "proj_a", True),
        (SwitchSubject.PROJECT, "proj_b", False),
        (SwitchSubject.KEY, KEY_ID, True),
        (SwitchSubject.KEY, "another", False),
        (SwitchSubject.ROUTE, "rt_m", True),
        (SwitchSubject.ROUTE, "rt_other", False),
        # an id of something else is not mistaken for it
        (SwitchSubject.ROUTE, "proj_a", False),
    ],
)
def test_what_the_caller_is_of_or_asks_for_is_refused(
    subject: SwitchSubject, subject_id: str | None, is_met: bool
) -> None:
    one = switch(subject, subject_id)
    route = ROUTE if subject is SwitchSubject.ROUTE else None
    if is_met:
        assert decided(one) == Refusal(RefusalCode.SWITCHED_OFF, route, switch=one)
    else:
        assert isinstance(decided(one), Plan)


def test_another_organisations_switch_turns_off_nothing_here() -> None:
    assert isinstance(decided(switch(SwitchSubject.ORGANISATION, organisation_id="org_b")), Plan)


def test_a_switch_ends_when_it_expires() -> None:
    one = switch(SwitchSubject.ORGANISATION, expires_at=NOW + 1)
    assert isinstance(decided(one, now=NOW), Refusal)
    assert isinstance(decided(one, now=NOW + 1), Plan)


def test_a_pool_that_is_off_leaves_its_requests_to_the_others() -> None:
    one = switch(SwitchSubject.POOL, "pool_a")
    plan = decided(one)
    assert isinstance(plan, Plan)
    assert [target.target.id for target in plan.targets] == ["tgt_b"]
    assert plan.left_out == (LeftOut("tgt_a", LeftOutReason.SWITCHED_OFF, one),)


def test_if_all_that_is_left_is_off_that_is_why() -> None:
    model = switch(SwitchSubject.MODEL, "mdl_a")
    refusal = Refusal(RefusalCode.TARGETS_SWITCHED_OFF, ROUTE, switch=model)
    assert decided(model) == refusal
    assert isinstance(decided(switch(SwitchSubject.MODEL, "mdl_b")), Plan)
