"""Scripts that run inside the examined Python: standard library only, syntax of Python 3.6, never imported here."""
