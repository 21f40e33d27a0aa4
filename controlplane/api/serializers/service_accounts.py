"""The shape of a program's account."""

from rest_framework import serializers

from controlplane.api.serializers.bindings import BindingSerializer
from controlplane.api.serializers.strict import OwnedSerializer
from controlplane.selectors.users import SEEN_BINDINGS


class ServiceAccountSerializer(OwnedSerializer):
    name = serializers.CharField(max_length=100)
    is_enabled = serializers.BooleanField(
        required=False, help_text="Switched off, its tokens are refused."
    )
    bindings = BindingSerializer(source=SEEN_BINDINGS, many=True, read_only=True)
