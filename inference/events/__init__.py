"""Facts on their way out: from the journals on disk to the event stream in the state store.

Belongs here: reading journals, feeding the stream, closing what a dead process left open. Does not
belong here: writing a journal while serving (`inference.journal`), or what the ledger makes of an
event. To add a sink: read ends with `reader.JournalReader` and keep a place of your own.
"""
