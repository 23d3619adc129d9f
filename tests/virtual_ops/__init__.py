"""torch's own operator database on the virtual CUDA device, against the CPU.

``python -m tests.virtual_ops`` runs every operator (float32 and bfloat16, one sample each, forward
and backward) and writes ``tests/virtual_ops/not_passing.md``: every operator that does not pass,
with its reason.
"""
