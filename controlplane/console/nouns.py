"""What the console calls each kind of object, and where its pages and its REST calls are."""

from dataclasses import dataclass

from django.urls import reverse


@dataclass(frozen=True, slots=True)
class Noun:
    """One kind of object.

    `key` is its name in access, audit trail and API paths. Its addresses are named `<key>` for the
    list, `<slug>` for one, and `<slug>-create`, `<slug>-edit`, `<slug>-delete`; those of the API
    `api-<slug>-list` and `api-<slug>-detail`, with `api_name` for the slug where it is given.
    """

    key: str
    one: str
    title: str
    group: str
    api_name: str = ""
    plural: str = ""

    @property
    def many(self) -> str:
        """Several of them, in a sentence."""
        return self.plural or self.title.lower()

    @property
    def slug(self) -> str:
        return self.one.replace(" ", "-")

    def list_url(self) -> str:
        return reverse(self.key)

    def detail_url(self, pk: object) -> str:
        return reverse(self.slug, args=[pk])

    def create_url(self) -> str:
        return reverse(f"{self.slug}-create")

    def edit_url(self, pk: object) -> str:
        return reverse(f"{self.slug}-edit", args=[pk])

    def delete_url(self, pk: object) -> str:
        return reverse(f"{self.slug}-delete", args=[pk])

    def api_path(self, pk: object | None = None) -> str:
        """The REST path of the list, or of one."""
        name = f"api-{self.api_name or self.slug}"
        return reverse(f"{name}-list") if pk is None else reverse(f"{name}-detail", args=[pk])


MODELS = Noun("models", "model", "Models", "Serve")
ROUTES = Noun("routes", "route", "Routes", "Serve")
POOLS = Noun("pools", "pool", "Pools", "Serve")
PRICES = Noun("prices", "price", "Prices", "Cost")
REPRICINGS = Noun("repricings", "repricing", "Repricings", "Cost")
CORRECTIONS = Noun("corrections", "correction", "Corrections", "Cost")
GPU_PRICES = Noun("gpu_prices", "gpu price", "GPU prices", "Cost", plural="GPU prices")
KEYS = Noun("keys", "key", "Keys", "Admin")
BUDGETS = Noun("budgets", "budget", "Budgets", "Cost")
LIMITS = Noun("limits", "limit", "Limits", "Govern")
CACHES = Noun("caches", "cache policy", "Caches", "Serve", plural="cache policies")
PURGES = Noun("purges", "purge", "Purges", "Serve")
SWITCHES = Noun("switches", "switch", "Kill switches", "Govern")
REPORT_SCHEDULES = Noun(
    "report_schedules", "report schedule", "Scheduled reports", "Cost", plural="scheduled reports"
)
ORGANISATIONS = Noun("organisations", "organisation", "Organisations", "Admin")
TEAMS = Noun("teams", "team", "Teams", "Admin")
PROJECTS = Noun("projects", "project", "Projects", "Admin")
SNAPSHOTS = Noun("snapshots", "snapshot", "Snapshots", "Govern")
AUDIT = Noun("audit", "audit entry", "Audit", "Govern", "audit", "audit entries")
USERS = Noun("users", "user", "Users", "Admin")
BINDINGS = Noun("bindings", "binding", "Roles", "Admin")
GATEWAYS = Noun("gateways", "gateway", "System", "Admin")
SERVICE_ACCOUNTS = Noun("service_accounts", "service account", "Service accounts", "Admin")
ALERTS = Noun("alerts", "alert", "Alerts", "Alerts")
ALERT_RULES = Noun("alert_rules", "alert rule", "Rules", "Alerts", plural="alert rules")
SERVICE_LEVELS = Noun("service_levels", "service level", "Service levels", "Alerts")
SILENCES = Noun("silences", "silence", "Silences", "Alerts")
CHANNELS = Noun("channels", "channel", "Channels", "Alerts")
DELIVERIES = Noun("deliveries", "delivery", "Deliveries", "Alerts")

NOUNS = {
    noun.key: noun
    for noun in (
        *(MODELS, ROUTES, POOLS, PRICES, KEYS, ORGANISATIONS, TEAMS, PROJECTS, SNAPSHOTS),
        *(AUDIT, USERS, BINDINGS, SERVICE_ACCOUNTS, GATEWAYS, LIMITS, SWITCHES, BUDGETS),
        *(CACHES, PURGES),
        *(REPRICINGS, CORRECTIONS, GPU_PRICES, REPORT_SCHEDULES),
        *(ALERTS, ALERT_RULES, SILENCES, CHANNELS, DELIVERIES),
    )
}
