"""The usage page by what callers name, and by hours of keys."""

import pytest

from controlplane.models import Organisation
from tests.controlplane.console.conftest import Reader
from tests.controlplane.console.test_request_pages import words_of
from tests.controlplane.console.test_usage_pages import lines_of
from tests.controlplane.ledger_events import make_end, make_origin

pytestmark = pytest.mark.slow


def test_keys_are_told_by_hour_and_what_callers_name_by_whole_days(reader: Reader) -> None:
    Organisation.objects.filter(pk=reader.organisation.pk).update(time_zone="Asia/Kolkata")
    reader.record(make_end(1, origin=make_origin(tags=("a", "b"))))
    ends = "from=2026-11-24T17:30&to=2026-11-24T18:00"
    page = reader.page(f"/usage/?group_by=key&{ends}")
    assert "24 Nov 2026 17:00 to 24 Nov 2026 18:00, end not included" in words_of(page)
    assert "sum of rows 1 " in lines_of(page)[-1]
    page = reader.page(f"/usage/?group_by=tag&bucket=day&{ends}")
    assert "counted by whole days" in page
    assert "24 Nov 2026 00:00 to 25 Nov 2026 00:00, end not included" in words_of(page)
    lines = lines_of(page)
    assert [line.partition(" 0 ")[0] for line in lines[:-1]] == [
        "a 1",
        "b 1",
        "counted under several tags -1",
    ]
    assert "sum of rows 1 " in lines[-1]
