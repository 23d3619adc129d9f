"""Why an operator does not pass: what the operator database says, or what the device lacks."""

from __future__ import annotations

LACKING = {
    "sparse": "the device has dense tensors only; sparse layouts raise DeviceError",
    "jiterator": "compiles CUDA C++ at run time (NVRTC), which needs a GPU; nothing to compare to",
}

BY_TEXT = (
    ("dense tensors only", LACKING["sparse"]),
    ("Jiterator is only supported", LACKING["jiterator"]),
    ("torch.cuda.jiterator", LACKING["jiterator"]),
)


def reason_of(op: str, text: str) -> str | None:
    """Return the reason for an operator that did not pass with this text, if there is one."""
    for part, reason in BY_TEXT:
        if part in text:
            return reason
    if text.startswith("op_db: the type"):
        return text
    if text.startswith("fails on the CPU"):
        return f"{text}: nothing to compare with"
    return None
