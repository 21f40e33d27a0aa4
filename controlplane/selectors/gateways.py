"""What is wanted of gateways; they belong to the platform, so there is nothing to filter by."""

from collections.abc import Mapping

from controlplane.models import GatewaySetting


def list_gateway_settings() -> Mapping[str, GatewaySetting]:
    """The desired states that were ever set, by the gateway's name."""
    return {row.name: row for row in GatewaySetting.objects.order_by("name")}
