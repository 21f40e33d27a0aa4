"""The jobs application: its tasks and its clock, both in code.

Tasks are safe to repeat and carry ids, never values; nothing waits in the broker for later.
"""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")

app = Celery("headworks")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.conf.imports = (
    "controlplane.tasks.alerts",
    "controlplane.tasks.budgets",
    "controlplane.tasks.configuration",
    "controlplane.tasks.feedback",
    "controlplane.tasks.heartbeat",
    "controlplane.tasks.idempotency",
    "controlplane.tasks.prices",
    "controlplane.tasks.caches",
    "controlplane.tasks.ledger",
    "controlplane.tasks.replays",
    "controlplane.tasks.reports",
    "controlplane.tasks.switches",
    "controlplane.tasks.usage",
)
app.conf.beat_schedule = {
    "republish": {"task": "configuration.republish", "schedule": 5.0, "options": {"expires": 5}},
    "collect-sections": {
        "task": "configuration.collect_sections",
        "schedule": 600.0,
        "options": {"expires": 600},
    },
    "prune-revisions": {
        "task": "configuration.prune_revisions",
        "schedule": 3_600.0,
        "options": {"expires": 3_600},
    },
    "forget-old-marks": {
        "task": "usage.forget_old_marks",
        "schedule": 3_600.0,
        "options": {"expires": 3_600},
    },
    "forget-rules": {
        "task": "usage.forget_rules",
        "schedule": 3_600.0,
        "options": {"expires": 3_600},
    },
    "reconcile-books": {"task": "ledger.reconcile", "schedule": 300.0, "options": {"expires": 300}},
    "drop-old-days": {
        "task": "ledger.drop_old_days",
        "schedule": 3_600.0,
        "options": {"expires": 3_600},
    },
    "forget-old-answers": {
        "task": "idempotency.forget_old_answers",
        "schedule": 3_600.0,
        "options": {"expires": 3_600},
    },
    "remove-expired-switches": {
        "task": "switches.remove_expired",
        "schedule": 15.0,
        "options": {"expires": 15},
    },
    "run-replays": {
        "task": "replays.run_queued",
        "schedule": 3.0,
        "options": {"expires": 3},
    },
    "reprice": {"task": "prices.reprice", "schedule": 3.0, "options": {"expires": 3}},
    "compute-own-costs": {
        "task": "prices.compute_own_costs",
        "schedule": 300.0,
        "options": {"expires": 300},
    },
    "forget-old-costs": {
        "task": "prices.forget_old_costs",
        "schedule": 3_600.0,
        "options": {"expires": 3_600},
    },
    "look-back-at-replays": {
        "task": "replays.look_back",
        "schedule": 300.0,
        "options": {"expires": 300},
    },
    "forget-old-replays": {
        "task": "replays.forget_old",
        "schedule": 3_600.0,
        "options": {"expires": 3_600},
    },
    "make-report-files": {
        "task": "reports.make_files",
        "schedule": 3.0,
        "options": {"expires": 3},
    },
    "send-due-reports": {"task": "reports.send_due", "schedule": 60.0, "options": {"expires": 60}},
    "forget-old-reports": {
        "task": "reports.forget_old",
        "schedule": 3_600.0,
        "options": {"expires": 3_600},
    },
    "evaluate-alerts": {"task": "alerts.evaluate", "schedule": 10.0, "options": {"expires": 10}},
    "deliver-alerts": {"task": "alerts.deliver", "schedule": 5.0, "options": {"expires": 5}},
    "forget-old-alerts": {
        "task": "alerts.forget_old",
        "schedule": 3_600.0,
        "options": {"expires": 3_600},
    },
    "keep-budgets": {"task": "budgets.keep", "schedule": 5.0, "options": {"expires": 5}},
    "forget-old-budgets": {
        "task": "budgets.forget_old",
        "schedule": 3_600.0,
        "options": {"expires": 3_600},
    },
    "forget-old-purges": {
        "task": "caches.forget_purges",
        "schedule": 3_600.0,
        "options": {"expires": 3_600},
    },
    "forget-old-similarities": {
        "task": "caches.forget_similarities",
        "schedule": 3_600.0,
        "options": {"expires": 3_600},
    },
    "forget-old-false-hits": {
        "task": "caches.forget_false_hits",
        "schedule": 3_600.0,
        "options": {"expires": 3_600},
    },
    "forget-old-feedback": {
        "task": "feedback.forget",
        "schedule": 3_600.0,
        "options": {"expires": 3_600},
    },
    "calibrate-caches": {
        "task": "caches.calibrate",
        "schedule": 300.0,
        "options": {"expires": 300},
    },
    "heartbeat": {"task": "jobs.heartbeat", "schedule": 10.0, "options": {"expires": 10}},
}
