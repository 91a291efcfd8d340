"""Streams and events. A device runs its work in the order it was submitted; streams are names for that one queue, and
events are moments in it."""
import torch

from ._index import device_index


Stream = torch.Stream  # torch's own: without a device they belong to the accelerator, which is this one
Event = torch.Event


def current_stream(device=None) -> torch.Stream:
    """The stream that work of this thread goes to."""
    return torch.accelerator.current_stream(torch.device("tpu", device_index(device)))


def default_stream(device=None) -> torch.Stream:
    """The stream that is there from the start."""
    return torch.Stream(
        stream_id=0,
        device_index=device_index(device),
        device_type=(
            torch._C._autograd.DeviceType.PrivateUse1.value
            if hasattr(torch._C._autograd.DeviceType.PrivateUse1, "value")
            else 20
        ),
    )


def set_stream(stream) -> None:
    """Makes stream the current one; None changes nothing."""
    if stream is not None:
        torch.accelerator.set_stream(stream)


class stream:
    """Context manager: stream is the current one inside; None changes nothing."""

    def __init__(self, stream):
        self.stream = stream

    def __enter__(self):
        if self.stream is not None:
            self.previous = current_stream(self.stream.device)
            set_stream(self.stream)

    def __exit__(self, *exc):
        if self.stream is not None:
            set_stream(self.previous)
        return False
