"""Text without secrets and without control characters for a terminal: all text that a person may see is passed through.

Messages, notes and causes of errors, warnings, log lines, `repr`, checkpoints and names of cached files are made of
addresses, and an address may contain a password, a token or a signature. `redacted` replaces them in any text;
`scrub` does the same in place for an exception of another library and for its whole chain of causes.

What counts as a secret:

* the user part of a URL (`user:password@`, `token@`), whatever it contains, and of a proxy without `http://`;
* the fragment of a web address;
* a value `name=value` or `--name value` whose name says so (token, sig, key, password, credential, …), also with `%74`
  for `t`; not `p` and `access`, which are ordinary parameters;
* the value of an `Authorization`, cookie, token or key header, and whatever follows `Bearer` or `Basic`;
* `-u user:password` and `-b cookie=value` of curl and wget;
* a query value, or the form of a known token, that looks random.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import TypeVar

T = TypeVar("T")

MASK = "***"

# Part of a name: without a limit, a long word would take quadratic time.
_PART = r"[\w.\-]{0,64}"
# Names of values: AWSAccessKeyId, X-Amz-Signature, sig, access_token, client_secret, passwd, jwt, …
_NAME = (
    rf"{_PART}(?:token|secret|signature|credential|passw|passphrase|(?:api|access|account)[_-]?key|private|authorization|"
    rf"jwt|cookie){_PART}|(?:{_PART}[_.\-])?(?:sig|pwd|hmac)"
)
# Names that are secret in the query of a URL and ordinary words elsewhere (`/data/key=7/a.tar`).
_NAME_IN_QUERY = rf"(?:{_PART}[_.\-])?(?:key{_PART}|auth|pass|pw|policy|code|sas|session|sid|otp|pin|ticket|verify)"
_VALUE = r"(?:[^&;\s'\"|#,]|,(?!\s)|'(?=\w))+"
_QUOTED = r"\"[^\"]*\"|'[^']*'"
_WORD = rf"(?:{_QUOTED}|[^\s|;]+)"
_ARRAY = r"(?:\[\w{0,64}\])?"  # name[]=value
_BEFORE = r"[^|;]{0,256}?\s"  # the arguments of a command before the one that matters
_HEADER = (
    r"(?<![\w\-])((?:proxy-)?authorization|(?:set-)?cookie|(?:\w{1,64}-){1,8}(?:token|secret|key|auth)(?:-\w{1,64}){0,8}"
    r"|(?<=['\"])\w{0,64}(?:token|secret|passw)\w{0,64}(?=\\?['\"]))"
    rf"(\\?['\"]?\s*:\s*)(?!//)(?:{_QUOTED}|(?:(?:bearer|basic|digest|token)[\\\s]+)?[^\s'\"|;,]+"
    r"(?:;\s*[\w.\-]{1,64}=[^\s'\"|;,]+)*)"
)
_KNOWN_FORM = (
    r"(?-i:\b(?:eyJ[\w\-]{8,1024}\.[\w\-]{8,}(?:\.[\w\-]*)?|hf_[A-Za-z0-9]{8,}|gh[pousr]_[A-Za-z0-9]{16,}|"
    r"github_pat_\w{16,}|glpat-[\w\-]{12,}|xox[abprs]-[\w\-]{10,}|(?:AKIA|ASIA)[A-Z0-9]{12,}|sk-[\w\-]{16,}|"
    r"ya29\.[\w\-]{10,}))"
)
_SWITCH = r"(?:true|false)(?![\w.\-])"  # AWS_SKIP_SIGNATURE=true


def _mask_random(found: re.Match[str]) -> str:
    """Return the mask for a value that looks random; a file name or a number stays."""
    value = found[0]
    kinds = sum(any(test(sign) for sign in value) for test in (str.isdigit, str.islower, str.isupper))
    looks_random = kinds >= 2 and not re.search(r"[a-z]{7,}|\.\w{2,5}$", value)
    return MASK if looks_random else value


def _mask_encoded_name(found: re.Match[str]) -> str:
    name = re.sub("%(..)", lambda code: chr(int(code[1], 16)), found[1]).partition("[")[0]
    return f"{found[1]}={MASK}" if is_secret_name(name) else found[0]


def _mask_fragment(found: re.Match[str]) -> str:
    return found[0] if found[1] is None else f"{found[0].removesuffix(found[1])}#{MASK}"


# What to replace, and by what. Every pattern takes linear time: the text may be hostile.
_RULES: tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...] = (
    # Up to the last "@" of the authority, because a password may contain "@"; then one that contains a slash or blank.
    (r"(?<=://)[^/?#\s\"|]+@", f"{MASK}@"),
    (r"(?<=://)[^/?#@\s'\"|]{0,256}:(?!\d*(?:[/?#\s'\"|]|$))[^@\t\n\r'\"|]{0,256}@", f"{MASK}@"),
    # An address without its scheme, or with one slash only; a proxy without "http://".
    (r"((?<![^\s'\"=(,])//|\bhttps?:/(?!/))[^/?#\s\"|]+@", rf"\1{MASK}@"),
    (
        r"((?:(?<!\S)(?:-x\s*|--(?:pre)?proxy[\s=]+)|_proxy=)['\"]?)(?!\w{1,16}://)[^\s:@'\"|]{0,256}:[^\s'\"|]{0,256}@",
        rf"\1{MASK}@",
    ),
    (r"\bhttps?://[^\s#'\"|]*(#[^\s'\"|]+)?", _mask_fragment),
    # An address that is a value of another one.
    (r"(?<=%3a%2f%2f)(?:(?!%2f)[^\s/?#&'\"|])+%40", f"{MASK}%40"),
    (rf"(?<=%3f|%26)({_NAME}|{_NAME_IN_QUERY})(%3d)(?:(?!%26|%23)[^\s&#'\"|])+", rf"\1\2{MASK}"),
    # Headers, as curl and as Python write them; of curl's all, whatever their names.
    (r"((?<!\S)(?:(?-i:-\w{0,8}H)\s*|--header[\s=]+)'[^':]{1,64}:\s*)[^']*", rf"\1{MASK}"),
    (r"((?<!\S)(?:(?-i:-\w{0,8}H)\s*|--header[\s=]+)\"[^\":]{1,64}:\s*)[^\"]*", rf"\1{MASK}"),
    (r"((?<!\S)(?:(?-i:-\w{0,8}H)\s*|--header[\s=]+)[^\s'\":]{1,64}:)(?:[^\s\\|;]|\\.)+", rf"\1{MASK}"),
    (_HEADER, rf"\1\2{MASK}"),
    (r"\b(bearer|basic)[\\\s]+[\w+/.=~\-]{4,}", rf"\1 {MASK}"),
    # name=value in a URL or a command, --name value, -u user:password.
    (
        rf"(?<![\w.\-])({_NAME}{_ARRAY})(=)(?!{_SWITCH})(?:{_QUOTED}|(?:[^&;\s'\"|/?#,]|,(?!\s|[\w.\-]{{1,64}}=))+)",
        rf"\1\2{MASK}",
    ),
    # Variables of a command, whose names are more often secrets than parts of a path are.
    (
        rf"(?<![\w.\-/])((?-i:[A-Z0-9_]{{0,64}}(?:PASS|KEY|AUTH))|pass)=(?!{_SWITCH})(?:{_QUOTED}|[^\s;|,:]+)",
        rf"\1={MASK}",
    ),
    # In a query a value may have slashes and quotes: "'" ends it only where it ends a word.
    (rf"(?<=[?&])((?:{_NAME}|{_NAME_IN_QUERY}){_ARRAY})(=)(?!{_SWITCH}){_VALUE}", rf"\1\2{MASK}"),
    (rf"(?<=[?&;])((?=[\w.\-]{{0,64}}%)(?:[\w.\-]|%[0-9a-f]{{2}}){{1,192}})=(?!{_SWITCH}){_VALUE}", _mask_encoded_name),
    (rf"(?<=;)({_NAME_IN_QUERY})(=){_VALUE}", rf"\1\2{MASK}"),
    (rf"((?<!\S)--(?:{_NAME}|(?:\w+-)+key|(?:\w+-)*(?:pass|auth))(?:\s+|=)){_WORD}", rf"\1{MASK}"),
    (rf"((?<!\S)(?:-u|--(?:proxy-|http-)?user)(?:\s+|=|(?=['\"]|[^\s:]+:))){_WORD}", rf"\1{MASK}"),
    (rf"((?<!\S)-\w{{1,8}}u\s+)(?=['\"]?[^\s:'\"]+:){_WORD}", rf"\1{MASK}"),
    (r"((?<!\S)(?:(?-i:-E)|--(?:proxy-)?cert)[\s=]+['\"]?[^\s:'\"|]{1,256}:)[^\s'\"|;]+", rf"\1{MASK}"),
    # Passwords of commands that have a way of their own: sshpass and 7z -pPW, unzip -P PW, openssl -k PW and pass:PW.
    (rf"(\bsshpass\s+-p\s*|\b(?:7z\w?|mysql\w*|unrar)\b{_BEFORE}-p){_WORD}", rf"\1{MASK}"),
    (rf"(\b(?:https?|xhs?)\b{_BEFORE}(?-i:-a)\s*){_WORD}", rf"\1{MASK}"),
    (rf"((?-i:\bunzip\b{_BEFORE}-P\s*|\bopenssl\b{_BEFORE}-[kK]\s+)|\bpass:(?=\S)){_WORD}", rf"\1{MASK}"),
    (rf"((?<!\S)-b\s*)(?=['\"]?[\w.\-]{{1,64}}=)(?:{_QUOTED}|[^\s|;]+)", rf"\1{MASK}"),
    (r"(?<=[?&;=])[A-Za-z0-9+/_%.~\-]{20,}={0,2}", _mask_random),
    # Tokens with a known form: JSON web tokens, Hugging Face, GitHub, GitLab, Slack, AWS, OpenAI, Google.
    (_KNOWN_FORM, MASK),
)
# A text without any of these has no secret: an ordinary path is searched once and returned.
_FIRST_LOOK = re.compile(
    r"[@=#]|:(?!//|\d)|(?<!\S)-[up]|--|[Bb](?:earer|asic)\s|hf_|gh[pousr]_|eyJ|AKIA|ASIA|sk-|glpat|xox|ya29|github_pat|%40|%3[Dd]"
)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Compile a pattern when it is first needed: most programs never make a message."""
    return re.compile(pattern, re.IGNORECASE)


def redacted(text: str) -> str:
    """The text with passwords, tokens and signatures replaced by `***`.

    >>> redacted("https://me:secret@h/a.tar?sig=abc&part=2")
    'https://***@h/a.tar?sig=***&part=2'
    >>> redacted("pipe:curl -H 'Authorization: Bearer abcdef' https://h/a.tar")
    "pipe:curl -H 'Authorization: ***' https://h/a.tar"
    """
    if _FIRST_LOOK.search(text) is None:
        return text
    for pattern, replacement in _RULES:
        text = _compiled(pattern).sub(replacement, text)
    return text


def hides_secrets(cls: type[T]) -> type[T]:
    """A class decorator: the `repr` of objects that contain addresses passes the redactor.

    >>> from typing import NamedTuple
    >>> @hides_secrets
    ... class Place(NamedTuple):
    ...     url: str
    >>> Place("https://me:secret@h/a.tar")
    Place(url='https://***@h/a.tar')
    """
    shown = cls.__repr__
    cls.__repr__ = lambda self: redacted(shown(self))  # type: ignore[method-assign]
    return cls


def printable(text: str, keep: str = "") -> str:
    r"""The text with control characters as escapes: a name in a shard may be made to move a cursor or to fake a line.

    >>> print(printable("a\x1b[2J\n"))
    a\x1b[2J\n

    Args:
        text: from anyone.
        keep: characters that stay, "\n" for example.
    """
    if text.isprintable():
        return text
    return "".join(
        sign if sign.isprintable() or sign in keep else sign.encode("unicode_escape").decode() for sign in text
    )


def warn(text: str, category: type[Warning] = UserWarning, *, stacklevel: int = 1) -> None:
    r"""A warning of the package, without secrets and in one line, whatever addresses and names are in it.

    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn("https://me:secret@h/a.tar: the member a\n is a link")
    >>> print(caught[0].message)
    https://***@h/a.tar: the member a\n is a link

    Args:
        text: what it says.
        category: its class.
        stacklevel: as for `warnings.warn`, counted from the caller of this function.
    """
    warnings.warn(printable(redacted(text)), category, stacklevel=stacklevel + 1)


def is_secret_name(name: str) -> bool:
    """Whether a variable, parameter or option of this name holds a secret.

    >>> is_secret_name("AWS_SECRET_ACCESS_KEY"), is_secret_name("X-Amz-Signature"), is_secret_name("WDS_BUCKET")
    (True, True, False)
    """
    return _compiled(f"(?:{_NAME}|{_NAME_IN_QUERY})").fullmatch(name) is not None


def scrub(error: BaseException) -> None:
    """Redact an exception of another library in place, with its notes, causes and context.

    >>> error = ValueError("cannot open https://me:secret@h/a.tar")
    >>> scrub(error)
    >>> error
    ValueError('cannot open https://***@h/a.tar')
    """
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        found = waiting.pop()
        if found is None or id(found) in seen:
            continue
        seen.add(id(found))
        _scrub_one(found)
        waiting += [found.__cause__, found.__context__, *_inside(found)]


def _scrub_one(error: BaseException) -> None:
    cleaned = tuple(redacted(part) if isinstance(part, str) else part for part in error.args)
    if cleaned != error.args:
        error.args = cleaned
    for name in ("filename", "filename2", "strerror", "msg", "reason", "message", "url"):
        # OSError and some libraries write their text from attributes, not from args.
        value = getattr(error, name, None)
        if isinstance(value, str) and (clean := redacted(value)) != value:
            with suppress(AttributeError, TypeError):  # read-only: computed from args, which are clean already
                setattr(error, name, clean)
    notes = getattr(error, "__notes__", None)
    if notes:
        error.__notes__ = [redacted(str(note)) for note in notes]


def _inside(error: BaseException) -> list[BaseException]:
    """Exceptions that an exception carries in its arguments or attributes, and shows as part of its text."""
    carried = [*error.args, getattr(error, "reason", None), getattr(error, "original_error", None)]
    carried += getattr(error, "exceptions", ())
    return [value for value in carried if isinstance(value, BaseException)]
