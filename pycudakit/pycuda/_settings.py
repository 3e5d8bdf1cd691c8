"""Settings of the process."""

from __future__ import annotations


class Settings:
    """What the command line or a program sets.

    Attributes
    ----------
    debug
        Whether sources are compiled with checks.
    """

    debug = False


settings = Settings()
