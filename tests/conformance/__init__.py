"""Our regional pass held against torch's own, on every function of the regression suite.

``python -m tests.conformance`` runs the suite and compiles each function a second time, its regions
by ``torch.fx.passes.regional_inductor``; with ``--write`` it writes ``docs/differences.md``.  A
difference that has no reason in :mod:`tests.conformance.reasons` fails the command.
"""
