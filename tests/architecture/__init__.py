"""The rules of docs/design.md as failing checks. A rule in the way says the code is misplaced."""
