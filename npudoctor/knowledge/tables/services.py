"""Services of frameworks: which command starts one, and on which ports and addresses it listens; services.json."""

from __future__ import annotations

from npudoctor.knowledge import table
from npudoctor.records import record

EVERY_ADDRESS = "0.0.0.0"  # noqa: S104 (read of others, never listened on)


@record(frozen=True, kw_only=True)
class ListenPort:
    """A port of a service. `option` names it without dashes at its front; `default` is the port without that option,
    None where the service then has none. `address_option` names where it listens, `address` is the default of that."""

    option: str
    address_option: str
    default: int | None = None
    address: str = EVERY_ADDRESS


@record(frozen=True, kw_only=True)
class Service:
    """A command that starts a service: the last parts of its first words (`vllm serve`), or a module.

    With a flag of `unless` it listens nowhere. Where `config` has paths, the options are keys of `ServerConfig` in the
    first of these files that is there, and the command line says nothing of them.
    """

    command: str
    framework: str
    ports: tuple[ListenPort, ...]
    unless: tuple[str, ...] = ()
    config: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()


@record(frozen=True, kw_only=True)
class Services:
    """The whole table."""

    as_of: str
    services: tuple[Service, ...]

    def started_by(self, line: str) -> Service | None:
        """The service that a command line starts, whose paths are cut down to their last part."""
        return next((one for one in self.services if f" {one.command} " in f" {line} "), None)


def load() -> Services:
    """Read services.json."""
    return table.record_of(Services, table.read("services"))
