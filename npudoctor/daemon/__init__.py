"""The daemon: runs checks at intervals, records changes, and serves a read-only HTTP API.

`state` is the only module that the container health check imports, and uses the standard library only.
"""
