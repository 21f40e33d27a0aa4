"""Vitals of earlier writers are read for ever, with the defaults of what came later."""

from dataclasses import replace

from inference.contract import codec
from tests.contract.samples import VITALS
from tests.contract.test_codec import OLD_VITALS, read_old


def test_vitals_of_earlier_writers_are_still_read() -> None:
    before_cached = replace(
        VITALS,
        traffic=tuple(replace(one, cached={}) for one in VITALS.traffic),
        workers=tuple(
            replace(one, prefix_tokens_total=None, prefix_hits_total=None) for one in VITALS.workers
        ),
    )
    traffic = tuple(replace(one, shed={}) for one in before_cached.traffic)
    before_tiers = replace(before_cached, tiers=(), top_entries=())
    before_sheds = replace(before_tiers, traffic=traffic)
    before_queues = replace(before_sheds, queued={}, oldest_wait_ms={}, degraded={})
    before_requests = replace(before_queues, directory_token=None, requests=0)
    before_breakers = replace(
        before_requests, prefill_tokens={}, breakers={}, restart_generation=0, is_draining=False
    )
    first, second, third, fourth, fifth, sixth, seventh = (
        codec.decode_vitals(read_old(file)) for file in OLD_VITALS
    )
    assert seventh == before_cached
    assert sixth == before_tiers
    assert fifth == before_sheds
    assert fourth == before_queues
    assert third == before_requests
    assert second == before_breakers
    assert first == replace(before_breakers, traffic=(), workers=())
