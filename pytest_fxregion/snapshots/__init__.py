"""Snapshots: in goes a :class:`~.document.Document` and a test, out comes what changed.

``names``, ``document``, ``graph``, ``inlining``, ``wiring``, ``matching``, ``changes``, ``lines``,
``wording`` and ``diff`` are pure and know neither pytest, syrupy nor torch.  ``storage`` is the
syrupy extension, ``ledger`` remembers what each test of this process did, ``orphans`` finds files
without a test, and ``session`` holds the functions that the plugin's hooks and fixtures call.
Importing this package imports none of them.
"""
