"""Somebody who listens: keeps what was announced, and fails when told to."""

from spotgrad.errors import StoreUnavailable


class FakeAnnouncer:
    """The port ``Announcer``.

    Attributes:
        heard: subject and body of everything that was announced.
        deaf: so many announcements fail from now on.
    """

    def __init__(self) -> None:
        self.heard: list[tuple[str, str]] = []
        self.deaf = 0

    def announce(self, subject: str, body: str) -> None:
        if self.deaf:
            self.deaf -= 1
            raise StoreUnavailable("announce: nobody answers")
        self.heard.append((subject, body))
