"""The Django app of static files and live panels."""

from django.apps import AppConfig


class DashboardsConfig(AppConfig):
    name = "dashboards"
    verbose_name = "Dashboards"
