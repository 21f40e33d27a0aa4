"""The channel layer of live pages, on the real store."""

import asyncio

import pytest
from channels.layers import get_channel_layer
from channels_redis.pubsub import RedisPubSubChannelLayer
from django.conf import settings


async def test_a_message_reaches_every_member_of_its_group(state_url: str) -> None:
    assert settings.CHANNEL_LAYERS["default"]["CONFIG"]["hosts"][0].endswith("db=2")
    layer = get_channel_layer()
    assert isinstance(layer, RedisPubSubChannelLayer)
    names = [await layer.new_channel() for _ in range(3)]
    for name in names[:2]:
        await layer.group_add("org_1.pools", name)
    await layer.group_send("org_1.pools", {"type": "tick", "seq": 1})
    async with asyncio.timeout(5):
        for name in names[:2]:
            assert await layer.receive(name) == {"type": "tick", "seq": 1}
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await layer.receive(names[2])
    await layer.flush()
