"""What a worker and its stand-ins tell each other, as JSON: who could write to their socket could make either
of them believe something, but not run anything.
"""

from __future__ import annotations

from multiprocessing.connection import Connection
from typing import Generic, TypeVar

import msgspec

from bpm_engine.core.stimuli import ErrorThrown, Stimulus, WorkCompleted, WorkFailed
from bpm_engine.store.work import Work as Claimed

T = TypeVar("T")
_encode = msgspec.json.Encoder().encode


class Order(msgspec.Struct, frozen=True):
    """Work for a stand-in."""

    number: int
    claimed: Claimed
    properties: dict[str, str]
    takes_value: bool
    gap: float  # seconds that the latest has run before this one is begun beside it


class Orders(msgspec.Struct, frozen=True, tag=True):
    orders: list[Order]


class Cancelled(msgspec.Struct, frozen=True, tag=True):
    """Whose result is wanted no more."""

    number: int


class Recalled(msgspec.Struct, frozen=True, tag=True):
    """What has not begun is to be given back."""


class Dismissed(msgspec.Struct, frozen=True, tag=True):
    """It may go."""


Message = Orders | Cancelled | Recalled | Dismissed


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """None of the three: a transactional handler has committed its own step, or it has not run."""

    number: int
    seconds: float
    completed: WorkCompleted | None = None
    failed: WorkFailed | None = None
    thrown: ErrorThrown | None = None
    has_run: bool = True

    @property
    def stimulus(self) -> Stimulus | None:
        return self.completed or self.failed or self.thrown


def answer(number: int, stimulus: Stimulus | None, seconds: float) -> Answer:
    match stimulus:
        case None:
            return Answer(number, seconds)
        case WorkCompleted():
            return Answer(number, seconds, completed=stimulus)
        case WorkFailed():
            return Answer(number, seconds, failed=stimulus)
        case ErrorThrown():
            return Answer(number, seconds, thrown=stimulus)
        case _:
            raise TypeError(f"no handler answers with {type(stimulus).__name__}")


class Line(Generic[T]):
    """One end of a socket, on which the other one says T."""

    def __init__(self, connection: Connection, heard: object) -> None:
        self.connection = connection
        self._decode = msgspec.json.Decoder(heard).decode

    def send(self, message: Message | Answer) -> None:
        self.connection.send_bytes(_encode(message))

    def receive(self) -> T:
        """EOFError: the other one is gone."""
        heard: T = self._decode(self.connection.recv_bytes())
        return heard


def to_worker(connection: Connection) -> Line[Message]:
    """The stand-in's end."""
    return Line(connection, Message)


def to_stand_in(connection: Connection) -> Line[Answer]:
    """The worker's end."""
    return Line(connection, Answer)
