"""Free names are text one can see, by the same rule at every door."""

from typing import Any

import pytest

from tests.controlplane.conftest import Caller

UNSEEN = {
    "right to left": "safe\u202egpj.exe",
    "no width": "te\u200bam",
    "isolate": "a\u2066b",
    "line separator": "a\u2028b",
    "unassigned": "a\u0378b",
    "tab": "a\tb",
}


def documents(name: str) -> dict[str, dict[str, Any]]:
    return {
        "/teams/": {"name": name},
        "/projects/": {"name": name, "team": "Default"},
        "/keys/": {"name": name},
    }


@pytest.mark.parametrize("name", UNSEEN.values(), ids=UNSEEN)
def test_a_name_with_what_cannot_be_seen_is_refused(name: str, admin: Caller) -> None:
    answers = [admin.post(path, document) for path, document in documents(name).items()]
    answers.append(admin.patch(f"/organisations/{admin.organisation.pk}/", {"name": name}))
    for answer in answers:
        assert answer.status_code == 400, answer.content
        assert list(answer.json()["fields"]) == ["name"]


def test_a_name_may_be_in_any_script(admin: Caller) -> None:
    for path, document in documents("Équipe 研究 א").items():
        assert admin.made(path, document)["name"] == "Équipe 研究 א"
