"""Stands where a Python is expected: has a process of the server run the command line, and ends as that one ends."""

import json
import os
import signal
import socket
import sys


def main(path: str) -> None:
    """Send the command line, the variables and the standard streams, and wait."""
    server = socket.socket(socket.AF_UNIX)
    server.connect(path)
    asked = json.dumps({"argv": sys.argv[1:], "environ": dict(os.environ), "folder": os.getcwd()}).encode()
    socket.send_fds(server, [b"%16d" % len(asked)], [0, 1, 2])
    server.sendall(asked)
    code = int(server.recv(16) or b"125")
    if code < 0:
        signal.signal(-code, signal.SIG_DFL) if -code not in (signal.SIGKILL, signal.SIGSTOP) else None
        os.kill(os.getpid(), -code)
    os._exit(code)
