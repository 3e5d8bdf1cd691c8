"""Whether sources are compiled with checks, which `--debug` and `set_debugging` set for the process."""

from __future__ import annotations


class Settings:
    """The settings of the command line or a program.

    Attributes
    ----------
    debug
        Whether sources are compiled with checks.
    """

    debug = False


settings = Settings()
