"""The daemon: it looks at the node again and again, remembers what changed, and answers over HTTP, read-only.

`state` is all that the container health check reads of it, and is kept free of every library for that.
"""
