"""Filters of lists, one set a noun: page and API read the same parameters alike.

References are compared with what the row refers to, as id or name. A reference that was looked up
by itself would tell whether another tenant's row exists.
"""

from datetime import UTC, datetime
from typing import Any, ClassVar

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db.models import CharField, Model, Q, QuerySet
from django.utils import timezone
from django_filters import ChoiceFilter, FilterSet, IsoDateTimeFilter, NumberFilter

from controlplane.decisions.key_states import EXPIRES_SOON, KeyState
from controlplane.models import (
    ApiToken,
    AuditEntry,
    CatalogueModel,
    ConfigRevision,
    Key,
    Limit,
    Organisation,
    Pool,
    Price,
    Project,
    ReportSchedule,
    RoleBinding,
    Route,
    ServiceAccount,
    Switch,
    Team,
    User,
)
from controlplane.models.kinds import (
    backends,
    enforcements,
    limit_subjects,
    limit_units,
    limit_windows,
    powers,
    provisioners,
    strategies,
    switch_subjects,
    tasks,
)
from controlplane.models.users import ROLES
from controlplane.selectors.limits import counting_key
from controlplane.selectors.prices import input_price
from controlplane.selectors.request_filters import TextFilter

_LARGEST = 2**63 - 1
_DIGITS_OF_AN_ID = 18
"""Longer numbers may not fit the column."""
_TIME_BOUNDS = [
    MinValueValidator(datetime(1970, 1, 1, tzinfo=UTC)),
    MaxValueValidator(datetime(2500, 1, 1, tzinfo=UTC)),
]
_KEY_STATES = [
    ("live", "live"),
    (KeyState.EXPIRING.value, f"expiring within {EXPIRES_SOON.days} days"),
    (KeyState.EXPIRED.value, "expired"),
    (KeyState.REVOKED.value, "revoked"),
]
# Words of the language can't be attributes; these are what callers write.
_PARAMETERS = {"since": "from", "until": "to"}


class TruthFilter(ChoiceFilter):
    """`true` or `false`; anything else is refused, for ignored it would list everything."""

    def __init__(self, **options: Any) -> None:
        choices = [("true", "yes"), ("false", "no")]
        super().__init__(choices=choices, empty_label="any", **options)

    def filter(self, qs: QuerySet[Any], value: Any) -> QuerySet[Any]:
        return super().filter(qs, value and value == "true")


class ReferenceFilter(TextFilter):
    """What a row refers to, by id or name; `field_name` is the reference."""

    def __init__(self, **options: Any) -> None:
        options.setdefault("help_text", "Id or name, exactly.")
        super().__init__(**options)

    def filter(self, qs: QuerySet[Any], value: Any) -> QuerySet[Any]:
        if not value:
            return qs
        field = self.field_name
        return qs.filter(Q(**{f"{field}__pk": value}) | Q(**{f"{field}__name": value}))


class SearchFilter(TextFilter):
    """Part of a name, in whatever case, or a whole id."""

    def __init__(self, *names: str, **options: Any) -> None:
        super().__init__(label="Search", help_text="Part of a name, or an id.", **options)
        self._names = names or ("name",)

    def filter(self, qs: QuerySet[Any], value: Any) -> QuerySet[Any]:
        if not value:
            return qs
        found = Q(pk=value) if _may_be_id(qs.model, value) else Q()
        for name in self._names:
            found |= Q(**{f"{name}__icontains": value})
        return qs.filter(found)


def _may_be_id(kind: type[Model], value: str) -> bool:
    if isinstance(kind._meta.pk, CharField):
        return True
    return value.isascii() and value.isdecimal() and len(value) <= _DIGITS_OF_AN_ID


def _since(field: str) -> IsoDateTimeFilter:
    return IsoDateTimeFilter(
        label="From",
        field_name=field,
        lookup_expr="gte",
        validators=_TIME_BOUNDS,
        help_text="At or after this time.",
    )


def _until(field: str) -> IsoDateTimeFilter:
    return IsoDateTimeFilter(
        label="To",
        field_name=field,
        lookup_expr="lt",
        validators=_TIME_BOUNDS,
        help_text="Before this time.",
    )


class RowFilters(FilterSet):
    """What every noun's filters have: a search. Parameters are named as callers write them."""

    search = SearchFilter()

    @classmethod
    def get_filters(cls) -> dict[str, Any]:
        """The filters by the names callers write."""
        found = super().get_filters()
        return {_PARAMETERS.get(name, name): one for name, one in found.items()}


class NamedFilters(RowFilters):
    """Filters of rows with a name that belong to an organisation."""

    name = TextFilter(label="Name", help_text="The whole name, exactly.")
    organisation = ReferenceFilter(label="Organisation")


class OrganisationFilters(RowFilters):
    name = TextFilter(label="Name", help_text="The whole name, exactly.")
    is_enabled = TruthFilter(label="Enabled")

    class Meta:
        model = Organisation
        fields: ClassVar[list[str]] = []


class TeamFilters(NamedFilters):
    class Meta:
        model = Team
        fields: ClassVar[list[str]] = []


class ProjectFilters(NamedFilters):
    team = ReferenceFilter(label="Team")
    is_default = TruthFilter(label="Default")

    class Meta:
        model = Project
        fields: ClassVar[list[str]] = []


class ModelFilters(NamedFilters):
    task = ChoiceFilter(label="Task", choices=tasks, empty_label="any")
    is_priced = TruthFilter(label="Priced", method="filter_priced")

    class Meta:
        model = CatalogueModel
        fields: ClassVar[list[str]] = []

    def filter_priced(self, rows: QuerySet[Any], name: str, value: str) -> QuerySet[Any]:
        priced = rows.alias(known_price=input_price("pk", timezone.now()))
        return priced.filter(known_price__isnull=value != "true")


class PriceFilters(RowFilters):
    search = SearchFilter("model__name")
    model = ReferenceFilter(label="Model")
    pool = ReferenceFilter(label="Pool")
    organisation = ReferenceFilter(label="Organisation")

    class Meta:
        model = Price
        fields: ClassVar[list[str]] = []


class ReportScheduleFilters(NamedFilters):
    is_enabled = TruthFilter(label="On")

    class Meta:
        model = ReportSchedule
        fields: ClassVar[list[str]] = []


class PoolFilters(NamedFilters):
    model = ReferenceFilter(label="Model")
    provisioner = ChoiceFilter(label="Provisioner", choices=provisioners, empty_label="any")
    backend = ChoiceFilter(label="Backend", choices=backends, empty_label="any")
    power = ChoiceFilter(label="Power", choices=powers, empty_label="any")

    class Meta:
        model = Pool
        fields: ClassVar[list[str]] = []


class RouteFilters(NamedFilters):
    is_enabled = TruthFilter(label="Enabled")
    strategy = ChoiceFilter(label="Strategy", choices=strategies, empty_label="any")
    pool = TextFilter(
        label="Pool", method="filter_pool", help_text="Id or name of a pool it sends to."
    )

    class Meta:
        model = Route
        fields: ClassVar[list[str]] = []

    def filter_pool(self, routes: QuerySet[Route], name: str, value: str) -> QuerySet[Route]:
        # by subquery: a join would list a route once a target
        targets = Route.objects.filter(Q(targets__pool_id=value) | Q(targets__pool__name=value))
        return routes.filter(pk__in=targets.values("pk"))


class KeyFilters(NamedFilters):
    project = ReferenceFilter(label="Project")
    team = ReferenceFilter(label="Team", field_name="project__team")
    state = ChoiceFilter(
        label="State", choices=_KEY_STATES, empty_label="any", method="filter_state"
    )
    is_enabled = TruthFilter(label="Enabled")
    is_revoked = TruthFilter(
        label="Revoked", field_name="revoked_at", lookup_expr="isnull", exclude=True
    )

    class Meta:
        model = Key
        fields: ClassVar[list[str]] = []

    def filter_state(self, keys: QuerySet[Key], name: str, value: str) -> QuerySet[Key]:
        now = timezone.now()
        if value == "revoked":
            return keys.filter(revoked_at__isnull=False)
        held = keys.filter(revoked_at__isnull=True)
        if value == KeyState.EXPIRED:
            return held.filter(expires_at__lte=now)
        if value == KeyState.EXPIRING:
            return held.filter(expires_at__gt=now, expires_at__lte=now + EXPIRES_SOON)
        return held.filter(Q(expires_at__isnull=True) | Q(expires_at__gt=now))


class LimitFilters(NamedFilters):
    subject = ChoiceFilter(label="Of", choices=limit_subjects, empty_label="any")
    unit = ChoiceFilter(label="Counts", choices=limit_units, empty_label="any")
    window = ChoiceFilter(label="Window", choices=limit_windows, empty_label="any")
    is_enabled = TruthFilter(label="On")
    key = TextFilter(
        label="Binds key",
        method="filter_key",
        help_text="Id or name of a key: limits of it, its project, its team, the organisation, "
        "or of each.",
    )
    subject_id = TextFilter(label="Subject", help_text="Id of what it is of; an end user's name.")
    enforcement = ChoiceFilter(label="Enforcement", choices=enforcements, empty_label="any")

    class Meta:
        model = Limit
        fields: ClassVar[list[str]] = []

    def filter_key(self, limits: QuerySet[Limit], name: str, value: str) -> QuerySet[Limit]:
        return counting_key(limits, value)


class SwitchFilters(RowFilters):
    search = SearchFilter("reason", "subject_id")
    organisation = ReferenceFilter(label="Organisation")
    subject = ChoiceFilter(label="Of", choices=switch_subjects, empty_label="any")
    subject_id = TextFilter(label="Subject", help_text="Id of what it turns off.")

    class Meta:
        model = Switch
        fields: ClassVar[list[str]] = []


class AuditFilters(RowFilters):
    """Changes; times are half-open: `from` is in, `to` is out."""

    search = SearchFilter("actor_label", "object_id", "reason")
    noun = TextFilter(label="Noun")
    object_id = TextFilter(label="Object", help_text="Id of what was changed.")
    action = TextFilter(label="Action")
    actor_id = TextFilter(label="Actor", help_text="Id of who changed it.")
    actor_kind = TextFilter(label="Kind of actor")
    via = TextFilter(label="Via")
    request_id = TextFilter(label="Request id")
    organisation_id = TextFilter(label="Organisation", help_text="Its id.")
    scope = TextFilter(
        method="in_scope",
        label="Scope",
        help_text="An organisation's id: its changes, and to platform administrators the "
        "platform's own, which belong to none.",
    )
    since, until = _since("at"), _until("at")

    def in_scope(self, rows: QuerySet[Any], name: str, value: str) -> QuerySet[Any]:
        """Those of the organisation or of none; the selector has left the latter to who may."""
        return rows.filter(Q(organisation_id=value) | Q(organisation_id=None))

    class Meta:
        model = AuditEntry
        fields: ClassVar[list[str]] = []


class SnapshotFilters(RowFilters):
    """Versions; times are half-open: `from` is in, `to` is out."""

    search = SearchFilter("actor_label", "reason")
    version = NumberFilter(
        label="Version",
        decimal_places=0,
        validators=[MinValueValidator(1), MaxValueValidator(_LARGEST)],
    )
    actor_id = TextFilter(label="Actor", help_text="Id of who made it.")
    request_id = TextFilter(label="Request id")
    organisation_id = TextFilter(label="Organisation", help_text="Its id.")
    since, until = _since("created_at"), _until("created_at")

    class Meta:
        model = ConfigRevision
        fields: ClassVar[list[str]] = []


class UserFilters(RowFilters):
    search = SearchFilter("username", "first_name", "last_name", "email")
    is_active = TruthFilter(label="Active")

    class Meta:
        model = User
        fields: ClassVar[list[str]] = []


class ServiceAccountFilters(NamedFilters):
    is_enabled = TruthFilter(label="Enabled")

    class Meta:
        model = ServiceAccount
        fields: ClassVar[list[str]] = []


class BindingFilters(RowFilters):
    search = SearchFilter("user__username", "service_account__name")
    organisation = ReferenceFilter(label="Organisation")
    role = ChoiceFilter(label="Role", choices=ROLES, empty_label="any")
    user = NumberFilter(
        label="User",
        field_name="user_id",
        decimal_places=0,
        validators=[MinValueValidator(1), MaxValueValidator(2**31 - 1)],
        help_text="Id of a person.",
    )
    service_account = ReferenceFilter(label="Service account")
    team = ReferenceFilter(label="Team", help_text="Roles held in this team: id or name.")
    project = ReferenceFilter(label="Project", help_text="Roles held in this project: id or name.")

    class Meta:
        model = RoleBinding
        fields: ClassVar[list[str]] = []


class TokenFilters(RowFilters):
    search = SearchFilter("service_account__name")
    organisation = ReferenceFilter(label="Organisation", field_name="service_account__organisation")
    service_account = ReferenceFilter(label="Service account")
    is_revoked = TruthFilter(
        label="Revoked", field_name="revoked_at", lookup_expr="isnull", exclude=True
    )

    class Meta:
        model = ApiToken
        fields: ClassVar[list[str]] = []
