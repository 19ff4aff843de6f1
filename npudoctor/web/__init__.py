"""The terminal interface in a browser: who may use it, its socket, its server, and one process a browser."""
