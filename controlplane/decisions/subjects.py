"""What limits, budgets and switches are about, in words."""

from inference.contract.kinds import LimitSubject

WHOLE = "the whole organisation"
_LABELS = {LimitSubject.END_USER.value: "end user"}


def kind_words(subject: str) -> str:
    """A kind of subject as people call it: `end user`, `route`."""
    return _LABELS.get(subject, subject)


def subject_words(subject: str, subject_id: str | None, name: str | None) -> str:
    """`route chat`, `each key`, `the whole organisation`.

    `name` None is a subject nobody can name any more; then its id stands for it.
    """
    if subject == LimitSubject.ORGANISATION:
        return WHOLE
    if subject_id is None:
        return f"each {kind_words(subject)}"
    return f"{kind_words(subject)} {name or subject_id}"
