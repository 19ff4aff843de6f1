"""The step that installs or removes a unit of systemd: its file, whether it starts at boot, and whether it runs."""

from __future__ import annotations

from npudoctor.host import Host, MutableHost, Unavailable, is_mutable
from npudoctor.records import record
from npudoctor.steps import Obstacle, Step, StepFailed, access_to, messages, run_changing
from npudoctor.steps.files import FileMetadata, RemoveFile, WriteFile, metadata_of, obstacle_to, unified_diff

FOLDER = "/etc/systemd/system"
RUNNING = "/run/systemd/system"
"""A folder that is there while systemd is process 1."""

STARTING_TIMEOUT_S = 120.0


@record(frozen=True, kw_only=True)
class SystemdUnit:
    """Make a unit's file what `content` says (None: no file), and start it at boot (`enabled`) and now (`active`).

    `active` None leaves running what runs; where systemd is not process 1, as in the making of an image, nothing is
    started. `metadata` is given to a file that comes back.
    """

    name: str
    content: str | None
    enabled: bool
    active: bool | None = None
    metadata: FileMetadata | None = None

    @property
    def path(self) -> str:
        """Where the file lies."""
        return f"{FOLDER}/{self.name}"

    def preview(self, host: Host) -> str:
        """The diff of the file, and what becomes of the service."""
        old = host.read(self.path) if host.exists(self.path) else None
        text = unified_diff(self.path, old or "", self.content or "", gone=self.content is None)
        now, then = (
            _words(self._is_enabled(host), self._is_active(host)),
            _words(self.enabled, self._wanted_state(host)),
        )
        return text if now == then else text + messages.SERVICE_CHANGES.text(name=self.name, old=now, new=then)

    def inverse(self, host: Host) -> Step:
        """The file and the service as they are."""
        there = host.exists(self.path)
        return SystemdUnit(
            name=self.name,
            content=host.read(self.path) if there else None,
            enabled=self._is_enabled(host),
            active=None if self.active is None else self._is_active(host),
            metadata=metadata_of(host, self.path) if there else None,
        )

    def holds(self, host: Host) -> bool:
        """Whether file and service are like this."""
        return self._file_holds(host) and self._service_holds(host)

    def obstacle(self, host: Host) -> Obstacle | None:
        """No systemd, no right to write its units, or a masked unit."""
        if host.which("systemctl") is None:
            return Obstacle(messages.NO_SYSTEMD.text())
        if "w" not in access_to(host, FOLDER) and host.user.uid != 0:
            return Obstacle(messages.UNITS_OF_ROOT.text(path=FOLDER), root=True)
        if host.read_link(self.path) == "/dev/null":
            return Obstacle(messages.MASKED.text(name=self.name))
        return obstacle_to(host, self.path)

    def apply(self, host: MutableHost) -> None:
        """Stop what goes before its file does; load, enable and start what comes after its file is there."""
        try:
            if self.content is None:
                self._remove(host)
            else:
                self._install(host, self.content)
        except Unavailable as why:
            raise StepFailed(why.reason) from why

    def _install(self, host: MutableHost, content: str) -> None:
        coming_back = self.metadata is not None  # it may have been cut off between the file and the start: start anew
        changed = coming_back or not self._file_holds(host)
        WriteFile(self.path, content, 0o644, self.metadata).apply(host)
        self._tell(host, "daemon-reload")
        if self.enabled is not self._is_enabled(host):
            run_changing(host, ("systemctl", "enable" if self.enabled else "disable", self.name), STARTING_TIMEOUT_S)
        if self._wanted_state(host) and (changed or not self._is_active(host)):
            self._tell(host, "restart", self.name)
        elif self._wanted_state(host) is False and self._is_active(host):
            self._tell(host, "stop", self.name)

    def _remove(self, host: MutableHost) -> None:
        if self._is_active(host):
            self._tell(host, "stop", self.name)
        if host.exists(self.path) and self._is_enabled(host):
            run_changing(host, ("systemctl", "disable", self.name), STARTING_TIMEOUT_S)
        RemoveFile(self.path).apply(host)
        self._tell(host, "daemon-reload")

    def _tell(self, host: MutableHost, *words: str) -> None:
        """A command to the running systemd, where it runs."""
        if host.exists(RUNNING):
            run_changing(host, ("systemctl", *words), STARTING_TIMEOUT_S)

    def _file_holds(self, host: Host) -> bool:
        if self.content is None:
            return not host.exists(self.path)
        return WriteFile(self.path, self.content, 0o644, self.metadata).holds(host)

    def _service_holds(self, host: Host) -> bool:
        return self.enabled is self._is_enabled(host) and self._wanted_state(host) in (None, self._is_active(host))

    def _wanted_state(self, host: Host) -> bool | None:
        return self.active if host.exists(RUNNING) else None

    def _is_enabled(self, host: Host) -> bool:
        return _status(host, "is-enabled", self.name).startswith("enabled")

    def _is_active(self, host: Host) -> bool:
        return host.exists(RUNNING) and _status(host, "is-active", self.name) in ("active", "reloading", "activating")


def _words(enabled: bool, active: bool | None) -> str:
    words = [messages.AT_BOOT if enabled else messages.NOT_AT_BOOT]
    words += [] if active is None else [messages.RUNNING if active else messages.NOT_RUNNING]
    return ", ".join(word.text() for word in words)


def _status(host: Host, *words: str) -> str:
    """What systemctl says now; a host that can be changed remembers answers, and is asked anew."""
    ask = host.run_streaming if is_mutable(host) else host.run
    try:
        return str(ask(("systemctl", *words), timeout=10.0).stdout).strip()
    except Unavailable:
        return ""
