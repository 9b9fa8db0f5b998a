"""The choke point of safety for addresses: secure mode, and commands that came out of downloaded data.

The first words of the three messages of secure mode are those of the public library; programs match them.
"""

from __future__ import annotations

from webdataset import config
from webdataset.errors import UnsafeContent, Where

from ._address import scheme_of
from ._redact import redacted

_OFF = "secure mode is on: WDS_SECURE=0 or config.safety.enforce = False turns it off"


def refuse_local(url: str) -> None:
    """In secure mode, local files are not opened.

    >>> refuse_local("a.tar")
    """
    if config.safety.enforce:
        raise UnsafeContent("gopen: unsafe_gopen is False, cannot open local files", Where(shard=url), hint=_OFF)


def refuse_command(url: str) -> None:
    """In secure mode, commands are not run.

    >>> refuse_command("pipe:true")
    """
    if config.safety.enforce:
        raise UnsafeContent("gopen_pipe: unsafe_gopen is False, cannot open pipe URLs", Where(shard=url), hint=_OFF)


def refuse_rewriting() -> None:
    """In secure mode, the environment does not change addresses.

    >>> refuse_rewriting()
    """
    if config.safety.enforce:
        raise UnsafeContent(
            "rewrite_url: unsafe_gopen is False, cannot rewrite URLs using environment variables", hint=_OFF
        )


def refuse_untrusted(url: str, came_from: str = "downloaded data") -> None:
    """A `pipe:` is run where the user wrote it, never when it came out of downloaded data.

    >>> refuse_untrusted("https://h/a.tar")
    >>> refuse_untrusted("pipe:rm -rf /", came_from="https://h/index.json")
    Traceback (most recent call last):
    webdataset.errors.UnsafeContent: a pipe: command out of https://h/index.json is not run – pipe:rm -rf / – ...
    """
    if scheme_of(url.strip()) == "pipe":
        raise UnsafeContent(
            f"a pipe: command out of {redacted(came_from)} is not run",
            Where(shard=url),
            hint="if you trust it, write the address in your own code or on the command line",
        )
