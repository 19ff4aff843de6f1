"""Makes the archives and packages that bring a Python of their own: `python3 -m tools.archive --help`."""
