"""The shells of alerts: what rules watch is measured, judged, and what follows is sent.

Belongs here: reading what a rule asks about (`measures/`), the looks at all rules, their preview
over the past, and the sending of messages. Does not belong here: when something fires
(`decisions/alerts.py`), rows (services), words of messages (`decisions/alert_words.py`, `notify`).
"""
