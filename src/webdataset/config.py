"""Every environment variable of the package, in one table; no other file reads the environment.

Variables are read when they are needed, never at import: a program may set them after `import webdataset`. The three
safety switches can also be set in code (`config.safety.enforce = True`), which overrides the environment.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from webdataset.errors import SpecError, UnsafeContent
from webdataset.redact import is_secret_name, redacted

# In the names of variables in a file, more words are suspicious than in a parameter of an address.
_MAYBE_SECRET = re.compile(r"key|pass|pwd|cred|auth|webhook|(?:^|_)pat(?:_|$)", re.IGNORECASE)


def _flag(text: str) -> bool:
    return text.strip().lower() not in {"", "0", "false", "no", "off"}


def _size(text: str) -> int:
    return int(float(text))


def _is_texts(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(each, str) for each in value.values())


def _headers(text: str) -> dict[str, dict[str, str]]:
    import json

    table: dict[str, dict[str, str]] = json.loads(text)
    if not isinstance(table, dict) or not all(map(_is_texts, table.values())):
        raise ValueError("not a table of tables of text")
    return table


def _policy(text: str) -> str:
    if text not in {"never", "size+version", "always"}:
        raise ValueError(text)
    return text


def _words(text: str) -> tuple[str, ...]:
    return tuple(word for word in text.split(":") if word)


@dataclass(frozen=True, slots=True)
class Variable:
    """One environment variable: its name, its meaning, and its value when it is not set.

    A secret one is never shown.
    """

    name: str
    meaning: str
    default: Any = None
    parse: Callable[[str], Any] = str
    secret: bool = False


_TABLE = (
    Variable("WDS_SECURE", "1 forbids pipe:, local files, URL rewriting and unpickling", default=False, parse=_flag),
    Variable("WDS_PYTORCH_WEIGHTS_ONLY", "0 lets torch.load run code found in .pth fields", default=True, parse=_flag),
    Variable("WDS_UNSAFE_PICKLE", "1 lets .pkl fields build any object, which runs code", default=False, parse=_flag),
    Variable("WDS_DECOMPRESS_LIMIT", "limit of what one field may decode to, bytes", default=2**30, parse=_size),
    Variable("WDS_SEED", "the seed of datasets that are given none", default=0, parse=int),
    Variable("WDS_CACHE", "directory of the shard cache for datasets that are given none"),
    Variable("WDS_CACHE_SIZE", "limit of the shard cache in bytes, 1e12 or -1 for none", default=-1, parse=_size),
    Variable(
        "WDS_CACHE_REVALIDATE",
        "when cached shards are compared with their origin: never, size+version or always",
        default="size+version",
        parse=_policy,
    ),
    Variable(
        "WDS_VERIFY_MD5",
        "1 compares shards that are streamed as a whole with the MD5 of their description",
        default=False,
        parse=_flag,
    ),
    Variable("WDS_VERBOSE_CACHE", "1 logs cache hits and downloads at INFO", default=False, parse=_flag),
    Variable("WDS_PROGRESS", "1 shows a progress bar for every shard that is downloaded", default=False, parse=_flag),
    Variable("WDS_INDEX_MEMORY", "limit of the indexes a dataset keeps in memory, bytes", default=2**29, parse=_size),
    Variable("WIDS_CACHE", "directory in which `wids` keeps shards that come over the network"),
    Variable("WDS_SHOW_SEED", "1 logs the seed of every ResampledShards pass at INFO", default=False, parse=_flag),
    Variable("GOPEN_VERBOSE", "1 logs opened and rewritten URLs at INFO", default=False, parse=_flag),
    Variable("GOPEN_REWRITE", "URL rewriting: regex=replacement, several separated by ;", default=""),
    Variable(
        "WDS_TRUSTED_FOLDERS",
        "local folders besides its own that a description or spec may name, separated by :",
        default=(),
        parse=_words,
    ),
    Variable("GOPEN_BUFFER", "buffer size for local files in bytes", default=-1, parse=_size),
    Variable("WDS_TIMEOUT", "seconds without a byte before a connection counts as stalled", default=60.0, parse=float),
    Variable("WDS_RETRIES", "failures in a row before a store gives up", default=8, parse=int),
    Variable(
        "WDS_HTTP_HEADERS",
        'JSON: beginning of an address → headers, {"https://host/": {"Authorization": "Bearer …"}}',
        default=MappingProxyType({}),
        parse=_headers,
        secret=True,
    ),
    Variable("NETRC", "file with user names and passwords per host", default="~/.netrc"),
    Variable("HF_ENDPOINT", "address of the Hugging Face hub", default="https://huggingface.co"),
    Variable("HF_TOKEN", "token for the hub; else the file HF_TOKEN_PATH, else HF_HOME/token"),
    Variable("HF_TOKEN_PATH", "file with the token for the hub"),
    Variable("HF_HOME", "directory of the hub's own library", default="~/.cache/huggingface"),
    Variable("HF_HUB_OFFLINE", "1 forbids requests to the hub", default=False, parse=_flag),
    Variable("AIS_ENDPOINT", "address of the AIStore proxy"),
    Variable("AIS_AUTHN_TOKEN", "token for AIStore"),
    Variable("USE_AIS_FOR", "schemes that go through AIStore, separated by :", default=(), parse=_words),
    Variable("ALLOW_OBSOLETE", "1 lets obsolete functions of the public library work", default=False, parse=_flag),
    Variable(
        "WDS_COMPARE_RANKS",
        "seconds to wait for the other ranks, to compare seed, shards and epoch; 0 does not compare",
        default=60.0,
        parse=float,
    ),
    Variable("TORCHELASTIC_RESTART_COUNT", "how often torchrun has restarted the ranks", default=0, parse=int),
    Variable("RANK", "rank of this process; overrides torch.distributed when WORLD_SIZE is set too", parse=int),
    Variable("WORLD_SIZE", "number of ranks; see RANK", parse=int),
    Variable("OMPI_COMM_WORLD_RANK", "rank of this process under Open MPI; RANK and torch come first", parse=int),
    Variable("OMPI_COMM_WORLD_SIZE", "number of ranks under Open MPI", parse=int),
    Variable("PMI_RANK", "rank of this process under MPICH and Intel MPI; RANK and torch come first", parse=int),
    Variable("PMI_SIZE", "number of ranks under MPICH and Intel MPI", parse=int),
    Variable("SLURM_PROCID", "rank of this process in a SLURM job step; RANK, torch and MPI come first", parse=int),
    Variable("SLURM_NTASKS", "number of ranks in a SLURM job step", parse=int),
    Variable("SLURM_STEP_NUM_TASKS", "the same, where SLURM sets it", parse=int),
    Variable("SLURM_JOB_ID", "number of the SLURM job; without SLURM_STEP_ID this is its batch script, one process"),
    Variable("SLURM_STEP_ID", "number of the SLURM job step"),
    Variable("WORKER", "number of this worker; overrides torch's when NUM_WORKERS is set too", parse=int),
    Variable("NUM_WORKERS", "number of workers; see WORKER", parse=int),
)

VARIABLES: dict[str, Variable] = {variable.name: variable for variable in _TABLE}


def read(name: str) -> Any:
    """The parsed value of a variable, or its default when it is not set.

    >>> os.environ["WDS_CACHE_SIZE"] = "1e9"
    >>> read("WDS_CACHE_SIZE")
    1000000000
    >>> del os.environ["WDS_CACHE_SIZE"]
    """
    variable = VARIABLES[name]
    text = os.environ.get(name)
    if text is None:
        return variable.default
    try:
        return variable.parse(text)
    except ValueError as error:
        shown = "" if variable.secret else f": {text!r}"
        raise SpecError(
            f"the environment variable {name} has an invalid value{shown}", hint=f"its meaning: {variable.meaning}"
        ) from error


def substitution(name: str) -> str | None:
    """The value of `${NAME}` in a shard spec: the environment variable `WDS_NAME`.

    >>> os.environ["WDS_BUCKET"] = "gs://b"
    >>> substitution("BUCKET")
    'gs://b'
    >>> del os.environ["WDS_BUCKET"]
    """
    return os.environ.get(f"WDS_{name}")


def expand_path(text: str, *, secrets: bool = True) -> str:
    """Replace `~` and `$NAME` in a path of a dataset spec; unknown names stay.

    >>> os.environ["WDS_BUCKET"] = "b"
    >>> expand_path("gs://$WDS_BUCKET/x")
    'gs://b/x'
    >>> del os.environ["WDS_BUCKET"]

    Args:
        text: the path or address.
        secrets: False for text out of a file: a variable whose name says that it is a secret is then refused, because
            the address could carry it to a server; so is one whose value has a secret that the redactor knows.
    """
    if not secrets:
        for name in re.findall(r"\$(?:\{([^}]*)\}|(\w+))", text):
            _refuse_secret("".join(name))
    return os.path.expandvars(os.path.expanduser(text))  # noqa: PTH111 - a Path would lose a slash of gs://


def _refuse_secret(name: str) -> None:
    value = os.environ.get(name, "")
    hides = name in VARIABLES and VARIABLES[name].secret
    if hides or is_secret_name(name) or _MAYBE_SECRET.search(name) or redacted(value) != value:
        raise UnsafeContent(f"a spec file asks for the environment variable {name}", hint="pass it in code")


def netrc_path() -> str | None:
    """The netrc file, if there is one.

    >>> os.environ["NETRC"] = "/no/such/file"
    >>> netrc_path() is None
    True
    >>> del os.environ["NETRC"]
    """
    path = os.path.expanduser(read("NETRC"))  # noqa: PTH111 - a path that cannot be read is none here
    return path if os.path.isfile(path) else None


def proxy(url: str) -> str | None:
    """The proxy that the usual variables (HTTPS_PROXY, NO_PROXY, …) name for an address.

    >>> os.environ["http_proxy"], os.environ["no_proxy"] = "http://proxy:3128", "localhost"
    >>> proxy("http://example.org/a.tar"), proxy("http://localhost/a.tar")
    ('http://proxy:3128', None)
    >>> del os.environ["http_proxy"], os.environ["no_proxy"]
    """
    if not any(name.lower().endswith("_proxy") for name in os.environ):
        return None
    from urllib.parse import urlsplit
    from urllib.request import getproxies_environment, proxy_bypass_environment  # type: ignore[attr-defined]  # typeshed lacks it

    parts = urlsplit(url)
    proxies = getproxies_environment()
    found = proxies.get(parts.scheme, proxies.get("all"))
    if not found or proxy_bypass_environment(parts.netloc.rpartition("@")[2], proxies):
        return None
    return found if "://" in found else f"http://{found}"


def hub_token() -> str | None:
    """The token for the Hugging Face hub, found as its own library finds it.

    >>> os.environ["HF_TOKEN"] = "hf_x"
    >>> hub_token()
    'hf_x'
    >>> del os.environ["HF_TOKEN"]
    """
    token: str | None = read("HF_TOKEN")
    if token:
        return token.strip()
    path = Path(read("HF_TOKEN_PATH") or f"{read('HF_HOME')}/token").expanduser()
    return path.read_text(encoding="utf-8").strip() or None if os.path.isfile(path) else None


def cloud() -> tuple[tuple[str, str], ...]:
    """The variables that cloud clients read: a new client is made when one of them changes.

    >>> os.environ["AWS_REGION"] = "eu-west-1"
    >>> ("AWS_REGION", "eu-west-1") in cloud()
    True
    >>> del os.environ["AWS_REGION"]
    """
    return tuple(sorted(item for item in os.environ.items() if item[0].startswith(("AWS_", "GOOGLE_", "AZURE_"))))


class _Switch:
    """A setting that a program may assign; None, as at first, leaves it to an environment variable."""

    def __init__(self, variable: str) -> None:
        self._variable = variable

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, safety: Safety, owner: type | None = None) -> bool:
        value = vars(safety).get(self._name)
        return bool(read(self._variable) if value is None else value)

    def __set__(self, safety: Safety, value: bool | None) -> None:
        vars(safety)[self._name] = value


class Safety:
    """The three safety switches: set in code, otherwise by the environment.

    >>> safety = Safety()
    >>> safety.enforce, safety.weights_only, safety.unsafe_pickle
    (False, True, False)
    >>> safety.enforce = True
    >>> safety.enforce
    True
    """

    enforce = _Switch("WDS_SECURE")
    """Secure mode: no `pipe:`, no local files, no URL rewriting, no unpickling."""
    weights_only = _Switch("WDS_PYTORCH_WEIGHTS_ONLY")
    """`torch.load` builds tensors only and runs no code."""
    unsafe_pickle = _Switch("WDS_UNSAFE_PICKLE")
    """Pickled fields may build any object, not only plain values, NumPy arrays and torch tensors."""


safety = Safety()
