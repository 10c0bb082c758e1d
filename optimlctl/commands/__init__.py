"""One file a command; each has `register(app)`."""
