"""Who asks: what this user is not shown, npudoctor cannot judge."""

from __future__ import annotations

from npudoctor.records import record
from npudoctor.sdk import Host, User, probe


@record(frozen=True)
class Asker:
    """The person who ran npudoctor, or who made the recording."""

    user: User

    @property
    def is_root(self) -> bool:
        """Whether nothing is hidden from this user."""
        return self.user.uid == 0


@probe(of_the_moment=True)
def asker(host: Host) -> Asker:
    """From the host itself."""
    return Asker(host.user)
