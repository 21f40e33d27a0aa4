"""What the page of one request tells beside its attempts."""

import pytest

from tests.controlplane.console.conftest import Reader
from tests.controlplane.ledger_events import make_end

pytestmark = [pytest.mark.slow, pytest.mark.django_db]


def test_a_traced_request_tells_its_trace_and_others_have_no_such_row(reader: Reader) -> None:
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    traced = make_end(1, decision={"route": "rt_1", "targets": ["tgt_1"], "trace_id": trace})
    reader.record(traced, make_end(2))
    page = reader.page(f"/requests/{traced.event_id}/")
    assert f'<dt>Trace</dt><dd class="mono">{trace}</dd>' in page
    assert "<dt>Trace</dt>" not in reader.page(f"/requests/{make_end(2).event_id}/")
