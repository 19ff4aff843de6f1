"""Run by the examined Python: imports once what ranks import, and forks one for each command line that it is sent."""

import contextlib
import importlib
import json
import os
import runpy
import selectors
import socket
import sys


def main(path: str, modules: "list[str]") -> None:
    """Answer until nobody holds our standard input any more."""
    for name in modules:
        importlib.import_module(name)
    selector, listener = selectors.DefaultSelector(), socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(64)
    selector.register(listener, selectors.EVENT_READ)
    selector.register(sys.stdin, selectors.EVENT_READ)
    print("ready", flush=True)
    while True:
        for key, _ in selector.select():
            if key.fileobj is sys.stdin:
                return
            if key.fileobj is listener:
                client, _ = listener.accept()
                pid = started(client)
                selector.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, client))
            else:
                selector.unregister(key.fileobj)
                os.close(key.fd)
                pid, client = key.data
                _, status = os.waitpid(pid, 0)
                with contextlib.suppress(OSError):  # whoever asked has been ended
                    client.sendall(b"%d" % os.waitstatus_to_exitcode(status))
                client.close()


def started(client: socket.socket) -> int:
    """The process that runs what the client asks for; in it this does not return."""
    size, fds, _, _ = socket.recv_fds(client, 16, 3)
    wanted = b""
    while len(wanted) < int(size):
        wanted += client.recv(1 << 20)
    asked = json.loads(wanted)
    pid = os.fork()
    if pid:
        for fd in fds:
            os.close(fd)
        return pid
    for target, fd in enumerate(fds):
        os.dup2(fd, target)
    os.environ.clear()
    os.environ.update(asked["environ"])
    os.chdir(asked["folder"])
    sys.argv = asked["argv"]
    runpy.run_path(asked["argv"][0], run_name="__main__")
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
