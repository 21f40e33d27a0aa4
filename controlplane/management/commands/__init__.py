"""One file a command. Belongs here: arguments and words for the terminal; the work is elsewhere."""
