"""One file a command. They read the command line and report; what they do is in `feed`."""
