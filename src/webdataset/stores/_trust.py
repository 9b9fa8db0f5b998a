"""Which addresses may be opened: one table from the kind of an address and its origin (`Birth`) to a rule.

An address that was read from data never runs a command, never opens a local file outside the folder of its dataset,
and never receives credentials that the user has for another host. The rule is applied when the address is read, and
again when it is opened, after `GOPEN_REWRITE`.

Secure mode (`WDS_SECURE=1`) refuses commands, local files and rewriting for all addresses. The first words of its three
messages are those of the public library; programs match them.
"""

from __future__ import annotations

import os
import re
from enum import Enum

from webdataset import config
from webdataset.address import Birth, birth_of, home_of, is_from_data
from webdataset.errors import UnsafeContent, Where

from ._parse_address import local_path, origin, scheme_of


class Rule(Enum):
    """What may be done with an address."""

    OPEN = "is opened"
    HOME = "is opened below the folder, in the bucket or on the host of its document, and nowhere else"
    PUBLIC = "is opened; credentials that the user keeps for a host are sent only if that host sent the document"
    NEVER = "is refused"


class Kind(Enum):
    """What an address refers to."""

    COMMAND = "pipe:"
    STREAM = "-"
    LOCAL = "a local file"
    MEMORY = "memory://"
    WEB = "http:// and https://"
    CLOUD = "object stores; their credentials are sent to the endpoint that the user configured"
    OTHER = "schemes of fsspec and of the user"
    WRAPPER = "schemes of fsspec that open another address inside"


_KINDS = {
    "": Kind.LOCAL,
    "file": Kind.LOCAL,
    "-": Kind.STREAM,
    "pipe": Kind.COMMAND,
    "memory": Kind.MEMORY,
    **dict.fromkeys(("http", "https"), Kind.WEB),
    **dict.fromkeys(("s3", "s3a", "gs", "az", "azure", "abfs", "abfss", "hf", "ais"), Kind.CLOUD),
    **dict.fromkeys(
        ("local", "dir", "simplecache", "filecache", "blockcache", "cached", "reference", "zip", "tar", "jar",
         "libarchive", "generic", "data", "asynclocal"),
        Kind.WRAPPER,
    ),
}  # fmt: skip

_OPEN, _HOME, _PUBLIC, _NEVER = Rule.OPEN, Rule.HOME, Rule.PUBLIC, Rule.NEVER
_COLUMNS = (
    Birth.USER, Birth.FILE, Birth.MAPPING, Birth.CHECKPOINT,
    Birth.DESCRIPTION, Birth.SPEC, Birth.LISTING, Birth.REDIRECT, Birth.CONTENT,
)  # fmt: skip
_ROWS = {
    #              USER   FILE    MAPPING CHECKPOINT DESCRIPTION SPEC    LISTING REDIRECT CONTENT
    Kind.COMMAND: (_OPEN, _NEVER, _NEVER, _NEVER,    _NEVER,     _NEVER,  _NEVER, _NEVER,  _NEVER),
    Kind.STREAM:  (_OPEN, _NEVER, _NEVER, _NEVER,    _NEVER,     _NEVER,  _NEVER, _NEVER,  _NEVER),
    Kind.LOCAL:   (_OPEN, _OPEN,  _OPEN,  _OPEN,     _HOME,      _HOME,   _HOME,  _NEVER,  _NEVER),
    Kind.MEMORY:  (_OPEN, _NEVER, _OPEN,  _OPEN,     _HOME,      _HOME,   _HOME,  _NEVER,  _NEVER),
    Kind.WEB:     (_OPEN, _NEVER, _OPEN,  _OPEN,     _PUBLIC,    _PUBLIC, _HOME,  _PUBLIC, _PUBLIC),
    Kind.CLOUD:   (_OPEN, _NEVER, _OPEN,  _OPEN,     _OPEN,      _OPEN,   _HOME,  _NEVER,  _OPEN),
    Kind.OTHER:   (_OPEN, _NEVER, _OPEN,  _OPEN,     _HOME,      _HOME,   _HOME,  _NEVER,  _NEVER),
    Kind.WRAPPER: (_OPEN, _NEVER, _NEVER, _OPEN,     _NEVER,     _NEVER,  _NEVER, _NEVER,  _NEVER),
}  # fmt: skip

TABLE: dict[tuple[Kind, Birth], Rule] = {
    (kind, birth): rule for kind, rules in _ROWS.items() for birth, rule in zip(_COLUMNS, rules, strict=True)
}
"""Who may open what."""

# A command, or braces that may make one.
_MAY_BE_COMMAND = re.compile(r"\s*(?:pipe:|[^/{]*\{.*:)", re.IGNORECASE | re.DOTALL)

_OFF = "secure mode is on: WDS_SECURE=0 or config.safety.enforce = False turns it off"
_REMEDY = "if you trust it, write the address in your own code or on the command line"


def kind_of(scheme: str) -> Kind:
    """The kind of the addresses with a scheme.

    >>> kind_of("pipe").name, kind_of("https").name, kind_of("sftp").name
    ('COMMAND', 'WEB', 'OTHER')
    """
    return _KINDS.get(scheme, Kind.OTHER)


def rule_for(url: str, scheme: str) -> Rule:
    """The cell of the table for an address.

    >>> rule_for("pipe:true", "pipe").name
    'OPEN'
    """
    return TABLE[kind_of(scheme), birth_of(url)]


def check(url: str, scheme: str, *, writing: bool = False) -> None:
    """Refuse an address that may not be opened; for writing it must also be below the home of its document.

    >>> from webdataset.address import Address
    >>> check("pipe:true", "pipe")
    >>> check(Address("pipe:rm -rf /", Birth.DESCRIPTION, "https://h/"), "pipe")
    Traceback (most recent call last):
    webdataset.errors.UnsafeContent: pipe: commands are not run when they come from a dataset description – ...
    """
    rule = rule_for(url, scheme)
    if is_from_data(url) and any(map(_MAY_BE_COMMAND.match, (url, *url.split("::")))):
        raise _refused(url, "pipe", _REMEDY)  # for a program that passes on the text alone, which is parsed again
    if writing and rule is not Rule.NEVER and birth_of(url) not in {Birth.USER, Birth.FILE, Birth.MAPPING}:
        rule = Rule.HOME
    if rule is Rule.NEVER:
        raise _refused(url, scheme, _REMEDY)
    if rule is Rule.HOME and not is_at_home(url, scheme):
        raise _refused(url, scheme, _hint_for_home(scheme))


def check_rewritten(url: str, scheme: str) -> None:
    """Refuse the result of `GOPEN_REWRITE` for an address that was read from data, if it may not be opened.

    The user wrote the rule, so its result may be anywhere, but not a command; `..` could leave the folder in it.
    """
    if not is_from_data(url):
        return
    path = local_path(url) if kind_of(scheme) is Kind.LOCAL else url  # `file:` addresses spell ".." as "%2e%2e" too
    if TABLE[kind_of(scheme), Birth.MAPPING] is Rule.NEVER or ".." in path.replace("\\", "/").split("/"):
        raise _refused(url, scheme, "GOPEN_REWRITE applies, but not to run commands with addresses from data")


def is_at_home(url: str, scheme: str) -> bool:
    """Whether an address is below the folder, in the bucket or on the host of the document it was read from.

    >>> from webdataset.address import Address
    >>> is_at_home(Address("/data/x/a.tar", Birth.DESCRIPTION, "/data"), "")
    True
    >>> is_at_home(Address("/data/../etc/passwd", Birth.DESCRIPTION, "/data"), "")
    False
    """
    home = home_of(url)
    if kind_of(scheme) is not Kind.LOCAL:
        return bool(home) and origin(url) == origin(home)
    folders: list[str] = list(config.read("WDS_TRUSTED_FOLDERS"))
    if scheme_of(home) in {"", "file"}:
        folders.append(local_path(home))
    return any(_is_below(local_path(url), folder) for folder in folders)


def may_send_credentials(url: str) -> bool:
    """Whether the user's stored credentials for the host of a web address may be sent to it.

    >>> from webdataset.address import Address
    >>> may_send_credentials("https://h/a.tar")
    True
    >>> may_send_credentials(Address("https://h/a.tar", Birth.DESCRIPTION, "https://elsewhere/"))
    False
    """
    rule = rule_for(url, scheme_of(url))
    return rule is Rule.OPEN or (rule is not Rule.NEVER and is_at_home(url, scheme_of(url)))


def refuse_local(url: str) -> None:
    """Raise an error in secure mode, in which local files are not opened.

    >>> refuse_local("a.tar")
    """
    if config.safety.enforce:
        raise UnsafeContent("gopen: unsafe_gopen is False, cannot open local files", Where(shard=url), hint=_OFF)


def refuse_command(url: str) -> None:
    """Raise an error for commands in secure mode, and for those that were read from data.

    >>> refuse_command("pipe:true")
    """
    if config.safety.enforce:
        raise UnsafeContent("gopen_pipe: unsafe_gopen is False, cannot open pipe URLs", Where(shard=url), hint=_OFF)
    check(url, "pipe")


def refuse_rewriting() -> None:
    """Raise an error in secure mode, in which the environment does not change addresses.

    >>> refuse_rewriting()
    """
    if config.safety.enforce:
        raise UnsafeContent(
            "rewrite_url: unsafe_gopen is False, cannot rewrite URLs using environment variables", hint=_OFF
        )


def _refused(url: str, scheme: str, hint: str) -> UnsafeContent:
    kind, birth = kind_of(scheme), birth_of(url)
    what = {
        Kind.COMMAND: "pipe: commands are not run when they come from",
        Kind.STREAM: "standard input is not read for",
        Kind.LOCAL: "local files outside the dataset's folder are not opened for",
    }.get(kind, f"{scheme}: addresses elsewhere are not opened for")
    return UnsafeContent(f"{what} {birth.value}", Where(shard=url), hint=hint)


def _hint_for_home(scheme: str) -> str:
    if kind_of(scheme) is not Kind.LOCAL:
        return _REMEDY
    return f"move it below the folder of its document, or name its folder in WDS_TRUSTED_FOLDERS; {_REMEDY}"


def _is_below(path: str, folder: str) -> bool:
    """Whether a path is below a folder. Links of the user in the folder may point outside of it; `link/..` may not."""
    resolve = os.path.realpath if ".." in path.split("/") else os.path.abspath
    root = resolve(folder or ".")
    return os.path.commonpath([root, resolve(path)]) == root
