"""``python -m pytest_fxregion``: accepting what a run left behind, and comparing two runs.

``candidates`` knows what an artifacts folder offers and what the tree holds now, ``command`` asks
the person; ``folders`` compares two folders of snapshots, ``page`` says what it found.  Nothing
here imports torch or syrupy: reviewing needs a checkout and an artifacts folder, no more.
"""
