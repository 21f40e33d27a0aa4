"""What the recorder needs to know, of whatever organisation it serves."""

from collections.abc import Collection, Mapping, Sequence
from datetime import tzinfo

import msgspec
from django.db import connection

from controlplane.decisions.rollups import MOST_NAMED, NamedKey, NamedKind
from controlplane.models import JournalMark, Organisation
from controlplane.models.keys import key_pk
from inference.decisions.rules import zone_of

_PLACE = ("organisation_id", "day", "dimension", "key_id")

_NAMES = """
SELECT substr(id, 5), name FROM controlplane_key WHERE id = ANY(%(keys)s)
UNION ALL SELECT id, name FROM controlplane_pool WHERE id = ANY(%(ids)s)
UNION ALL SELECT id, name FROM controlplane_cataloguemodel WHERE id = ANY(%(ids)s)
UNION ALL SELECT id, name FROM controlplane_project WHERE id = ANY(%(ids)s)
UNION ALL SELECT id, name FROM controlplane_team WHERE id = ANY(%(ids)s)
"""
_UNSEEN = """
SELECT asked.place FROM json_to_recordset(%s) AS asked(
    place int, organisation_id text, day date, dimension text, key_id text, value text,
    project_id text
) WHERE NOT EXISTS (
    SELECT 1 FROM controlplane_usagenamed AS seen
    WHERE seen.organisation_id = asked.organisation_id AND seen.day = asked.day
        AND seen.dimension = asked.dimension AND seen.key_id = asked.key_id
        AND seen.kind = 'named' AND seen.value = asked.value
        AND seen.project_id = asked.project_id
)
"""
_COUNTED = """
SELECT asked.organisation_id, asked.day, asked.dimension, asked.key_id, (
    SELECT count(*) FROM controlplane_usagenamed AS seen
    WHERE seen.organisation_id = asked.organisation_id AND seen.day = asked.day
        AND seen.dimension = asked.dimension AND seen.key_id = asked.key_id
        AND seen.kind = 'named'
) FROM json_to_recordset(%s) AS asked(
    organisation_id text, day date, dimension text, key_id text
)
"""


def get_names(ids: Collection[str]) -> dict[str, str]:
    """The names of these pools, models, projects, teams and keys.

    Keys go by their public id, as events do.
    """
    asked = sorted(ids)
    with connection.cursor() as cursor:
        cursor.execute(_NAMES, {"ids": asked, "keys": [key_pk(one) for one in asked]})
        return dict(cursor.fetchall())


def get_zones(organisation_ids: Collection[str]) -> Mapping[str, tzinfo]:
    """The zones these organisations count in; one that is gone is absent."""
    rows = Organisation.objects.filter(pk__in=sorted(organisation_ids))
    return {pk: zone_of(name) for pk, name in rows.values_list("pk", "time_zone")}


def list_refused(keys: Sequence[NamedKey]) -> frozenset[NamedKey]:
    """Those of the roll-up's keys for which there is no room: new ones beyond the cap of their day.

    Two recorders at once may each let in as many as there was room for.
    """
    named = [key for key in keys if key.kind == NamedKind.NAMED.value]
    asked = [{**key._asdict(), "place": place} for place, key in enumerate(named)]
    with connection.cursor() as cursor:
        cursor.execute(_UNSEEN, [msgspec.json.encode(asked).decode()])
        unseen = [named[place] for (place,) in sorted(cursor.fetchall())]
        places = {key[:4] for key in unseen}
        if not places:
            return frozenset()
        told = [dict(zip(_PLACE, place, strict=True)) for place in sorted(places)]
        cursor.execute(_COUNTED, [msgspec.json.encode(told).decode()])
        room = {tuple(row[:4]): MOST_NAMED - row[4] for row in cursor.fetchall()}
    refused = []
    for key in unseen:
        room[key[:4]] -= 1
        if room[key[:4]] < 0:
            refused.append(key)
    return frozenset(refused)


def get_marks() -> dict[str, int]:
    """Up to where each journal is in the ledger."""
    return dict(JournalMark.objects.values_list("journal", "mark"))
