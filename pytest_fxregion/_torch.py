"""Every private name of torch that this package uses, each with what it is for.

The rest of the package imports these from here and reads as if torch had a public API.  Beside each
name stands what it is for and in which torch versions it was seen (2.11 to 2.15 unless said).
Importing this module imports torch; nothing that pytest loads at start-up may do so.
"""

# Each block below belongs to one stage of the pipeline, in the order in which data flows.

from __future__ import annotations
