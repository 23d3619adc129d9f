"""The figures of the GPUs that can be named, each with where it was published.

In: the name given to ``--fxregion-arch``.  Out: an :class:`Architecture`, which answers what
``torch.cuda`` and Inductor ask about a device.  Nothing here imports torch.

Limits per compute capability (shared memory, registers, threads): CUDA C++ Programming Guide 13.0,
"Technical Specifications per Compute Capability", and for 10.0 the Blackwell Tuning Guide.  What
differs between products (multiprocessors, memory, L2, clocks) has its source in
:attr:`Architecture.source`.  The size of the memory is what programs are told, a little less than
what is sold, and not quite the same on two boards: the one figure here is one that was printed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

MIB: Final = 1 << 20
KIB: Final = 1 << 10


@dataclass(frozen=True)
class Architecture:
    """One GPU, as a program on it would be told about it.

    Sizes are in bytes, clocks in kHz, the width of the memory bus in bits.
    """

    name: str
    """What the option calls it: ``h100``."""
    product: str
    """What ``torch.cuda.get_device_name()`` says."""
    capability: tuple[int, int]
    multiprocessors: int
    total_memory: int
    l2_cache: int
    shared_memory_per_multiprocessor: int
    shared_memory_per_block_optin: int
    threads_per_multiprocessor: int
    clock_rate: int
    memory_clock_rate: int
    memory_bus_width: int
    source: str
    """Where the product's figures were published."""
    shared_memory_per_block: int = 48 * KIB
    registers_per_multiprocessor: int = 64 * KIB
    threads_per_block: int = 1024
    warp_size: int = 32


_ALL: Final = (
    Architecture(
        name="h100",
        product="NVIDIA H100 80GB HBM3",
        capability=(9, 0),
        multiprocessors=132,
        total_memory=81_090 * MIB,
        l2_cache=50 * MIB,
        shared_memory_per_multiprocessor=228 * KIB,
        shared_memory_per_block_optin=227 * KIB,
        threads_per_multiprocessor=2048,
        clock_rate=1_980_000,
        memory_clock_rate=2_619_000,
        memory_bus_width=5120,
        source="NVIDIA H100 Tensor Core GPU Architecture whitepaper, table 'H100 SXM5'; "
        "deviceQuery says 81090 MBytes, 132 multiprocessors, 1980 MHz, 2619 MHz, L2 52428800 bytes",
    ),
    Architecture(
        name="h200",
        product="NVIDIA H200",
        capability=(9, 0),
        multiprocessors=132,
        total_memory=143_156 * MIB,
        l2_cache=60 * MIB,
        shared_memory_per_multiprocessor=228 * KIB,
        shared_memory_per_block_optin=227 * KIB,
        threads_per_multiprocessor=2048,
        clock_rate=1_980_000,
        memory_clock_rate=3_201_000,
        memory_bus_width=6144,
        source="NVIDIA H200 Tensor Core GPU datasheet (141 GB HBM3e, 4.8 TB/s); torch prints "
        "143156MB, 132 multiprocessors, L2 60MB; clocks as nvidia-smi -q lists them as maximal",
    ),
    Architecture(
        name="a100",
        product="NVIDIA A100-SXM4-80GB",
        capability=(8, 0),
        multiprocessors=108,
        total_memory=81_158 * MIB,
        l2_cache=40 * MIB,
        shared_memory_per_multiprocessor=164 * KIB,
        shared_memory_per_block_optin=163 * KIB,
        threads_per_multiprocessor=2048,
        clock_rate=1_410_000,
        memory_clock_rate=1_593_000,
        memory_bus_width=5120,
        source="NVIDIA A100 Tensor Core GPU Architecture whitepaper; deviceQuery says 81158 "
        "MBytes, 108 multiprocessors, 1410 MHz, 1593 MHz, 5120-bit, L2 41943040 bytes",
    ),
    Architecture(
        name="l4",
        product="NVIDIA L4",
        capability=(8, 9),
        multiprocessors=58,
        total_memory=22_491 * MIB,
        l2_cache=48 * MIB,
        shared_memory_per_multiprocessor=100 * KIB,
        shared_memory_per_block_optin=99 * KIB,
        threads_per_multiprocessor=1536,
        clock_rate=2_040_000,
        memory_clock_rate=6_251_000,
        memory_bus_width=192,
        source="NVIDIA L4 datasheet (24 GB, 300 GB/s); deviceQuery says 22491 MBytes, 58 "
        "multiprocessors, 2040 MHz, 6251 MHz, 192-bit, L2 50331648 bytes",
    ),
    Architecture(
        name="b200",
        product="NVIDIA B200",
        capability=(10, 0),
        multiprocessors=148,
        total_memory=182_642 * MIB,
        l2_cache=126 * MIB,
        shared_memory_per_multiprocessor=228 * KIB,
        shared_memory_per_block_optin=227 * KIB,
        threads_per_multiprocessor=2048,
        clock_rate=1_965_000,
        memory_clock_rate=3_996_000,
        memory_bus_width=7680,
        source="NVIDIA Blackwell Tuning Guide (L2 126 MB); torch prints 182642MB, 148 "
        "multiprocessors, L2 126MB; clocks as nvidia-smi -q lists them; 7680-bit is what drivers "
        "say (7.7 TB/s), where the datasheet has 8 TB/s",
    ),
)

ARCHITECTURES: Final[Mapping[str, Architecture]] = MappingProxyType({a.name: a for a in _ALL})
