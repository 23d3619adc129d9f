"""``torch.cuda.Stream`` and ``torch.cuda.Event`` on a device that does its work when it is asked.

Every order that a program sets up between streams is kept, for all work is done in the order of
submission.  There is no time to measure: ``elapsed_time`` says so.
"""

from __future__ import annotations

from typing import Any, NoReturn

import torch

from pytest_fxregion.device.virtual.refusal import cannot


class Stream(torch.Stream):
    """A stream of the virtual device; takes what ``torch.cuda.Stream`` takes."""

    def __new__(cls, device: Any = None, priority: int = 0, **kwargs: Any) -> Stream:
        """Make a new stream, or with ``stream_id=`` the stream of that number."""
        if "stream_id" in kwargs:
            stream: Stream = super().__new__(
                cls,
                stream_id=kwargs["stream_id"],
                device_index=kwargs.get("device_index", 0),
                device_type=kwargs.get("device_type", 1),
            )
            return stream
        made: Stream = super().__new__(cls, "cuda:0" if device is None else device, priority=0)
        return made

    @property
    def cuda_stream(self) -> int:
        """The stream's number, in place of a driver's handle."""
        return int(self.stream_id)

    @property
    def priority(self) -> int:
        """Always 0: nothing waits for anything."""
        return 0

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """Lowest and highest priority, as H100 and A100 report them."""
        return (0, -5)

    def wait_event(self, event: Any) -> None:
        """Wait for ``event``: it has happened."""

    def wait_stream(self, stream: Any) -> None:
        """Wait for the work of ``stream``: it is done."""

    def record_event(self, event: Any = None) -> Any:
        """Record ``event`` here (a new one by default) and return it."""
        if event is None:
            event = Event()
        event.record(self)
        return event

    def query(self) -> bool:
        """Return that all work is done."""
        return True

    def synchronize(self) -> None:
        """Wait for the work of this stream: it is done."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, torch.Stream) and other.stream_id == self.stream_id

    def __hash__(self) -> int:
        return hash(("virtual cuda", self.stream_id))

    def __repr__(self) -> str:
        return f"<torch.cuda.Stream device=cuda:0 cuda_stream={self.cuda_stream:#x}>"


class Event(torch.Event):
    """An event of the virtual device; takes what ``torch.cuda.Event`` takes."""

    def __new__(
        cls,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
        external: bool = False,
    ) -> Event:
        """Make an event that has not been recorded."""
        made: Event = super().__new__(cls, "cuda:0", enable_timing=enable_timing)
        return made

    @property
    def cuda_event(self) -> int:
        """A number that tells this event from others."""
        return id(self)

    def record(self, stream: Any = None) -> None:
        """Record the event: everything before it is done."""

    def wait(self, stream: Any = None) -> None:
        """Let ``stream`` wait for the event: it has happened."""

    def query(self) -> bool:
        """Return that everything before the event is done."""
        return True

    def synchronize(self) -> None:
        """Wait for the event: it has happened."""

    def elapsed_time(self, end_event: Any) -> NoReturn:
        """Raise :class:`~pytest_fxregion.errors.DeviceError`: there is no time here."""
        cannot("torch.cuda.Event.elapsed_time")
