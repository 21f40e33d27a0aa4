"""The form of a pool: what its kind has, each field marked with how its change acts."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from django.forms import (
    BooleanField,
    CharField,
    CheckboxSelectMultiple,
    ChoiceField,
    IntegerField,
    MultipleChoiceField,
    PasswordInput,
    Textarea,
    TextInput,
    TypedChoiceField,
)

from controlplane.console.diffs import NOT_SET, Line
from controlplane.console.forms.base import NounForm, Values, bounds_of
from controlplane.console.forms.engine_arguments import (
    PREFIX,
    argument_fields,
    arguments_in,
    initial_of_arguments,
)
from controlplane.decisions.pools import Acting, acting_of
from controlplane.models import Pool
from controlplane.models.kinds import backends, capacity_classes, endpoints
from controlplane.models.pools import GPU_BOUNDS
from controlplane.services.pools import MAX_CREDENTIAL_LENGTH
from inference.contract.kinds import Backend, Provisioner
from inference.contract.params import ENGINE_ARGUMENTS, POOL_BOUNDS

KINDS = [
    (Provisioner.PROCESS.value, "process: engines started here"),
    (Provisioner.STATIC.value, "static: servers elsewhere"),
]
# another kind has another form; a credential stays out of the address, so it isn't taken along
_ANOTHER_FORM = {
    "hx-get": "",
    "hx-trigger": "change",
    "hx-include": "[name=name], [name=model]",
    "hx-target": "form.edit",
    "hx-select": "form.edit",
    "hx-swap": "outerHTML",
    "hx-push-url": "true",
}
_ARGUMENTS = "engine_arguments"
_REMOVE = "remove_credential"
_OF_PROCESSES = ("replicas", "model_source", "port_base", "start_timeout_s", "drain_timeout_s")
_OF_ADDRESSES = ("addresses", "credential", _REMOVE, "endpoints")
_FAULTS = ("breaker_failure_percent", "breaker_min_requests", "breaker_open_ms", "panic_percent")


class PoolForm(NounForm):
    """A pool. Its provisioner is chosen once; another kind of pool is another pool."""

    fixed = frozenset({"provisioner"})
    secrets = frozenset({"credential"})
    groups: ClassVar[Sequence[tuple[str, Sequence[str]]]] = (
        ("Addresses", ("addresses", "credential", _REMOVE, "endpoints")),
        (
            "Workers",
            ("replicas", "model_source", "port_base", "start_timeout_s", "drain_timeout_s"),
        ),
        ("Load and faults", ("worker_concurrency", *_FAULTS)),
        ("What its GPUs cost", ("gpu_type", "capacity_class", "gpus_per_worker")),
        ("Engine arguments", tuple(f"{PREFIX}{name}" for name in ENGINE_ARGUMENTS)),
    )

    provisioner = ChoiceField(label="Provisioner", choices=KINDS)
    name = CharField(
        label="Name", max_length=64, help_text="Small letters, digits, dots, dashes, underscores."
    )
    model = CharField(
        label="Model",
        max_length=255,
        help_text="Name of a model in the catalogue; a new name is listed there.",
    )
    served_model_name = CharField(
        label="Served name",
        max_length=255,
        required=False,
        help_text="What the workers call the model; empty is the model's name.",
    )
    backend = ChoiceField(
        label="Engine", choices=backends, help_text="What kind of server answers."
    )
    addresses = CharField(
        label="Addresses, one a line",
        widget=Textarea({"rows": 3, "spellcheck": "false"}),
        help_text="Base URLs, one worker each, usually ending in /v1.",
    )
    credential = CharField(
        label="Credential",
        required=False,
        max_length=MAX_CREDENTIAL_LENGTH,
        strip=False,
        widget=PasswordInput(attrs={"autocomplete": "new-password"}),
    )
    remove_credential = BooleanField(label="Remove the credential", required=False)
    endpoints = MultipleChoiceField(
        label="Endpoints they have",
        choices=endpoints,
        widget=CheckboxSelectMultiple,
        required=False,
        help_text="None ticked: all that the engine can have. Responses and messages are "
        "translated into chat where they are not among them.",
    )
    replicas = IntegerField(
        label="Replicas, workers", **bounds_of(POOL_BOUNDS["replicas"]), initial=1
    )
    model_source = CharField(
        label="Weights",
        max_length=512,
        help_text="A listed model, or a folder below the host's models folder.",
    )
    port_base = IntegerField(
        label="First port",
        required=False,
        min_value=1,
        max_value=65_535,
        help_text="On loopback, one a worker from here up; empty: any free one.",
    )
    start_timeout_s = IntegerField(
        label="Start time-out, s",
        **bounds_of(POOL_BOUNDS["start_timeout_s"]),
        initial=600,
        help_text="A worker not ready by then is ended and tried again.",
    )
    drain_timeout_s = IntegerField(
        label="Drain time, s",
        **bounds_of(POOL_BOUNDS["drain_timeout_s"]),
        initial=30,
        help_text="How long running requests may go on when a worker leaves.",
    )
    gpu_type = CharField(
        label="GPU",
        max_length=40,
        required=False,
        empty_value=None,
        help_text="Such as H100. Empty: what its workers cost isn't known.",
    )
    capacity_class = TypedChoiceField(
        label="Capacity class",
        choices=[("", "not known"), *capacity_classes()],
        required=False,
        empty_value=None,
    )
    gpus_per_worker = IntegerField(
        label="GPUs a worker",
        **bounds_of(GPU_BOUNDS["gpus_per_worker"]),
        required=False,
        initial=1,
        help_text="Empty: one.",
    )
    worker_concurrency = IntegerField(
        label="Requests a worker runs at once",
        **bounds_of(POOL_BOUNDS["worker_concurrency"]),
        required=False,
        help_text="Least work counts in it. Empty: the engine's max_num_seqs, or not known.",
    )
    breaker_failure_percent = IntegerField(
        label="Breaker opens at failures, %",
        **bounds_of(POOL_BOUNDS["breaker_failure_percent"]),
        initial=50,
        help_text="Of a worker's attempts of the last 10 s, at one gateway process.",
    )
    breaker_min_requests = IntegerField(
        label="Breaker opens from attempts",
        **bounds_of(POOL_BOUNDS["breaker_min_requests"]),
        initial=5,
        help_text="With fewer in the last 10 s nothing is concluded.",
    )
    breaker_open_ms = IntegerField(
        label="Breaker stays open, ms",
        **bounds_of(POOL_BOUNDS["breaker_open_ms"]),
        initial=5_000,
        help_text="Then one trial; doubled each time that fails.",
    )
    panic_percent = IntegerField(
        label="Panic below workers left, %",
        **bounds_of(POOL_BOUNDS["panic_percent"]),
        initial=50,
        help_text="With fewer of the ready workers left, breakers are ignored; 0: never.",
    )

    def prepare(self) -> None:
        """Leave the fields of the pool's kind, and say of each how its change acts."""
        self.kind = self._kind()
        is_static = self.kind == Provisioner.STATIC
        # engines we start are vLLM's, so there is nothing to choose
        for name in _OF_PROCESSES if is_static else (*_OF_ADDRESSES, "backend"):
            del self.fields[name]
        if not is_static:
            self.fields |= argument_fields()
        if _REMOVE in self.fields and not (self.row is not None and self.row.has_credential):
            del self.fields[_REMOVE]
        if "provisioner" in self.fields:
            self.fields["provisioner"].initial = self.kind
            self.fields["provisioner"].widget.attrs |= _ANOTHER_FORM
        if "backend" in self.fields:
            self.fields["backend"].initial = Backend.OPENAI.value
        self.fields["model"].widget = TextInput({"list": "known-models"})
        self._fill(self.initial)
        self._tell_credential()
        for name, field in self.fields.items():
            service_name = _ARGUMENTS if name.startswith(PREFIX) else name
            if name != _REMOVE:
                field.acting = acting_of(service_name, self.kind)  # type: ignore[attr-defined]

    def _kind(self) -> str:
        if self.row is not None:
            return str(self.row.provisioner)
        asked = self.data.get("provisioner") or self.initial.get("provisioner")
        return str(asked) if asked in dict(KINDS) else Provisioner.PROCESS.value

    def _fill(self, initial: dict[str, Any]) -> None:
        """Values as a service has them, as the controls show them."""
        initial |= initial_of_arguments(initial.get(_ARGUMENTS) or {})
        if isinstance(initial.get("addresses"), list | tuple):
            initial["addresses"] = "\n".join(initial["addresses"])

    def _tell_credential(self) -> None:
        if "credential" not in self.fields:
            return
        told = "Sent to the workers as a bearer token, and never shown again."
        if self.row is not None and self.row.has_credential:
            told = f"It is {credential_words(self.row)}. Empty keeps it; what you type replaces it."
        self.fields["credential"].help_text = told

    @classmethod
    def initial_of(cls, row: Pool) -> dict[str, Any]:
        found = super().initial_of(row)
        found.pop("credential")
        return {
            **found,
            "model": row.model.name,
            "addresses": list(row.addresses),
            "endpoints": list(row.endpoints),
            _ARGUMENTS: dict(row.engine_arguments),
        }

    def clean_gpus_per_worker(self) -> int:
        return self.cleaned_data["gpus_per_worker"] or 1

    def clean_addresses(self) -> list[str]:
        return self.cleaned_data["addresses"].split()

    def clean_credential(self) -> str | None:
        return self.cleaned_data["credential"] or None

    def clean_served_model_name(self) -> str:
        given: str = self.cleaned_data["served_model_name"]
        return given or self.cleaned_data.get("model", "")

    def values(self) -> dict[str, Any]:
        """Values as the service takes them; arguments this form doesn't know stay as they are."""
        found = {
            name: value
            for name, value in super().values().items()
            if name != _REMOVE and not name.startswith(PREFIX)
        }
        if self.kind != Provisioner.STATIC:
            held = {} if self.row is None else dict(self.row.engine_arguments)
            unknown = {name: one for name, one in held.items() if name not in ENGINE_ARGUMENTS}
            found[_ARGUMENTS] = unknown | arguments_in(self.cleaned_data)
        return found

    def base_of(self, values: Values) -> dict[str, Any]:
        known = (*self.fields, _ARGUMENTS)
        kept = {
            name: value
            for name, value in values.items()
            if name in known and name != _REMOVE and not name.startswith(PREFIX)
        }
        if isinstance(kept.get("addresses"), str):
            kept["addresses"] = kept["addresses"].split()
        return super().base_of(kept)

    def changes(self, base: Values, only: Iterable[str] | None = None) -> dict[str, Any]:
        found = super().changes(base, only)
        if self.cleaned_data.get(_REMOVE) and "credential" not in found:
            found["credential"] = None
        return found

    def is_risky(self, changes: Values) -> bool:
        """What callers may feel needs a reason."""
        ways = {acting_of(name, self.kind) for name in changes}
        if ways - {Acting.LIVE} or {"addresses", "credential"} & set(changes):
            return True
        replicas = changes.get("replicas")
        return self.row is not None and replicas is not None and replicas < self.row.replicas

    def label(self, name: str) -> str:
        return "Engine arguments" if name == _ARGUMENTS else super().label(name)

    def shown(self, name: str, value: Any) -> str:
        if name == "endpoints" and value:
            return ", ".join(dict(endpoints()).get(one, one) for one in value)
        return super().shown(name, value)

    def lines(self, base: Values | None, changes: Values) -> Sequence[Line]:
        """A line an argument, and a credential by what is known of it."""
        told = {
            name: one for name, one in changes.items() if name not in (_ARGUMENTS, "credential")
        }
        lines = [*super().lines(base, told)]
        if changes.get("credential") is not None or (base is not None and "credential" in changes):
            lines.append(self._credential_line(base, changes["credential"]))
        if _ARGUMENTS in changes:
            before = None if base is None else base.get(_ARGUMENTS) or {}
            lines.extend(_argument_lines(before, changes[_ARGUMENTS]))
        return lines

    def _credential_line(self, base: Values | None, given: str | None) -> Line:
        before = None if base is None else credential_words(self.row)
        return Line("Credential", before, "removed" if given is None else "a new one")

    def place_error(self, name: str, messages: Sequence[str]) -> bool:
        own = name.replace(f"{_ARGUMENTS}.", PREFIX, 1)
        own = next((one for one in ("addresses", "endpoints") if own.startswith(one)), own)
        return super().place_error(own, messages)


def credential_words(pool: Pool) -> str:
    """What may be told of a pool's credential."""
    if not pool.has_credential:
        return NOT_SET
    return f"set, ends in {pool.credential_last4}" if pool.credential_last4 else "set"


def _argument_lines(before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> list[Line]:
    found = []
    for name in sorted({*(before or {}), *after}):
        old, new = (before or {}).get(name), after.get(name)
        if old != new or before is None:
            was = None if before is None else argument_words(old)
            found.append(Line(name, was, argument_words(new)))
    return found


def argument_words(value: object) -> str:
    """An argument's value as forms write it."""
    if value is None:
        return "engine's default"
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)
