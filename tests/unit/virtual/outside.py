"""What a program can ask of CUDA where there is none: run as a module, torch's own answers.

Each answer is the value, or the exception with its first line.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import torch

QUERY = torch.ones(1, 1, 4, 8)

QUESTIONS: dict[str, Callable[[], Any]] = {
    "make a tensor": lambda: torch.zeros(1, device="cuda"),
    "make a tensor elsewhere": lambda: torch.zeros(1, device="cuda:1"),
    "move a tensor": lambda: torch.zeros(1).cuda(),
    "move a meta tensor": lambda: torch.empty(2, device="meta").to("cuda"),
    "make a storage": lambda: torch.UntypedStorage(4, device="cuda"),
    "make a generator": lambda: torch.Generator("cuda"),
    "make a stream": lambda: torch.cuda.Stream(),
    "make a plain stream": lambda: torch.Stream("cuda:0"),
    "make an event": lambda: torch.cuda.Event(),
    "make a graph": lambda: torch.cuda.CUDAGraph(),
    "pinned": lambda: torch.zeros(1).is_pinned(),
    "initialize": torch.cuda.init,
    "initialized": torch.cuda.is_initialized,
    "available": torch.cuda.is_available,
    "count": torch.cuda.device_count,
    "current": torch.cuda.current_device,
    "current stream": torch.cuda.current_stream,
    "properties": lambda: torch.cuda.get_device_properties(0),
    "capability": torch.cuda.get_device_capability,
    "architectures": torch.cuda.get_arch_list,
    "bfloat16": torch.cuda.is_bf16_supported,
    "random state": torch.cuda.get_rng_state,
    "seed": lambda: torch.cuda.manual_seed(0),
    "synchronize": torch.cuda.synchronize,
    "memory": torch.cuda.memory_allocated,
    "accelerator": torch.accelerator.current_accelerator,
    "accelerator available": torch.accelerator.is_available,
    "accelerators": torch.accelerator.device_count,
    "built": torch.backends.cuda.is_built,
    "version": lambda: torch.version.cuda,
    "configuration": torch.__config__.show,
    "MAGMA": lambda: torch.cuda.has_magma,
    "cuDNN": torch.backends.cudnn.version,
    "attention": lambda: torch._fused_sdp_choice(QUERY, QUERY, QUERY),
}


def answers() -> dict[str, str]:
    """Ask all of them."""
    found = {}
    for name, question in QUESTIONS.items():
        try:
            found[name] = repr(question())
        except (RuntimeError, AssertionError) as error:
            found[name] = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
    return found


if __name__ == "__main__":
    print(json.dumps(answers()))
