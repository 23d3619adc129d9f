"""Every private name of torch that this package uses, each with what it is for.

A module for each part of torch; the rest of the package imports from them and reads as if torch had
a public API.  Beside each name stands what it is for and in which torch versions it was seen (2.11
to 2.15 unless said).  Nothing that pytest loads at start-up may import one of them: they import
torch, all but :mod:`~pytest_fxregion._torch.frames` its compiler, which costs seconds.
"""
