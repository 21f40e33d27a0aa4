"""The Django app of the control plane."""

from importlib import import_module

from django.apps import AppConfig


class ControlPlaneConfig(AppConfig):
    name = "controlplane"
    label = "controlplane"
    verbose_name = "Headworks"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        # registering checks is an import; they read models, so no sooner than now
        import_module("controlplane.checks")
