"""The form of a model."""

from django.forms import CharField, ChoiceField, IntegerField

from controlplane.console.forms.base import NounForm
from controlplane.models.kinds import tasks
from inference.contract.kinds import Task


class ModelForm(NounForm):
    name = CharField(
        label="Name", max_length=128, help_text="As the catalogue calls it, such as qwen3-32b."
    )
    task = ChoiceField(label="Task", choices=tasks, initial=Task.GENERATE.value)
    max_context_tokens = IntegerField(
        label="Context, tokens",
        min_value=1,
        required=False,
        help_text="Prompt plus output. Leave it empty if it is not known.",
    )

    def unset(self, name: str) -> str:
        return "not known"
