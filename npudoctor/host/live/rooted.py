"""The live host over another file tree: a host mounted into a container, or a simulated node with real executables."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Mapping, Sequence

from npudoctor.host import TOOL_TIMEOUT_S, About, Because, Completed, FileStat, Unavailable, User, command_key
from npudoctor.host.hands_off import PATH as OFF
from npudoctor.host.live.library import Library
from npudoctor.host.live.local import LocalHost
from npudoctor.host.live.output import OUTPUT_LIMIT_BYTES
from npudoctor.host.recording.canned import RecordedHost
from npudoctor.host.recording.recorded_node import open_bundle


def open_root(folder: str, *, at_once: int = 2) -> LocalHost:
    """The node below `folder`; raises ValueError, with one line, where there is none.

    A folder with a bundle.json is what `npudoctor sim tools` wrote: its files and measurements are read from the
    folder, its commands run from DIR/bin as real processes. Its libdcmi.so is one that somebody puts below DIR/library.
    """
    if not os.path.isdir(folder):
        raise ValueError(f"--root {folder}: folder not found")
    folder = os.path.abspath(folder)
    if os.path.exists(os.path.join(folder, "bundle.json")):
        return ToolsHost(open_bundle(folder, for_its_files=True), os.path.join(folder, "bin"), at_once=at_once)
    return LocalHost(root=folder, at_once=at_once)


class ToolsHost(LocalHost):
    """Files, variables and measurements as recorded; commands as real processes from one folder of executables."""

    def __init__(self, recorded: RecordedHost, tools: str, *, at_once: int = 2) -> None:
        super().__init__(at_once=at_once, environ={})
        self._recorded = recorded
        self._tools = tools
        folder = os.path.dirname(tools)
        self._library = Library(os.path.join(folder, "library"), hands_off=folder + OFF)

    def fresh(self) -> ToolsHost:
        """The same folder with nothing remembered."""
        return ToolsHost(self._recorded, self._tools, at_once=self._at_once)

    @property
    def about(self) -> About:
        """The recorded node's name and architecture."""
        return self._recorded.about

    @property
    def user(self) -> User:
        """The recorded user."""
        return self._recorded.user

    @property
    def environ(self) -> Mapping[str, str]:
        """The recorded variables."""
        return self._recorded.environ

    def read_bytes(self, path: str, *, limit: int = OUTPUT_LIMIT_BYTES) -> bytes:
        """The first `limit` bytes of a recorded file."""
        return self._recorded.read_bytes(path, limit=limit)

    def read_part(self, path: str, offset: int, length: int) -> bytes:
        """Some bytes out of the middle of a recorded file."""
        return self._recorded.read_bytes(path, limit=offset + length)[offset:]

    def exists(self, path: str) -> bool:
        """Whether a path is recorded."""
        return self._recorded.exists(path)

    def list_dir(self, path: str) -> tuple[str, ...]:
        """The names in a recorded folder."""
        return self._recorded.list_dir(path)

    def stat(self, path: str) -> FileStat:
        """The recorded kind, mode and owner."""
        return self._recorded.stat(path)

    def read_link(self, path: str) -> str | None:
        """The target of a recorded link."""
        return self._recorded.read_link(path)

    def real_path(self, path: str) -> str:
        """The path with its recorded links followed."""
        return self._recorded.real_path(path)

    def measure(self, key: str) -> object:
        """The recorded measurement."""
        return self._recorded.measure(key)

    def which(self, name: str) -> str | None:
        """Where the node has a command: as recorded, else by its name where an executable replaces it."""
        return self._recorded.which(name) or (name if self._find_executable(name) else None)

    def _find_executable(self, name: str) -> str | None:
        path = os.path.join(self._tools, posixpath.basename(name))
        return path if os.access(path, os.X_OK) else None

    def run(self, argv: Sequence[str], *, timeout: float = TOOL_TIMEOUT_S) -> Completed:
        """Run the executable that replaces a command."""
        path = self._find_executable(argv[0])
        if path is None:
            raise self._why_missing(argv[0])
        return self._once([path, *argv[1:]], command_key(argv), os.environ, timeout)

    def _why_missing(self, name: str) -> Unavailable:
        """Why a command cannot be run: nothing replaces it, or what does may not be executed."""
        path = os.path.join(self._tools, posixpath.basename(name))
        if os.path.isfile(path):
            return Unavailable(f"{path} cannot be executed: its mode lacks the right to", because=Because.NO_RIGHT)
        return Unavailable(f"{name} is not installed")

    def run_in_target(
        self, name: str, python: str, *, timeout: float, environ: Mapping[str, str] | None = None
    ) -> Completed:
        """Run a script under the executable that replaces the target Python."""
        path = self._find_executable("python3")
        if path is None:
            raise Unavailable(f"{python} is not installed")
        return super().run_in_target(name, path, timeout=timeout, environ=environ)
