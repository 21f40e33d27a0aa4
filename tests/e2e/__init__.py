"""End to end, as a user: the launcher, a real engine, curl, the official client, Chromium."""
