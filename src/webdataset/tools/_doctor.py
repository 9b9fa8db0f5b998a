"""`wds doctor`: what this machine has, what is missing, and which stores can be read."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum

from webdataset import config, stores
from webdataset.errors import WebDatasetError

_SECRET = re.compile(r"(?i)token|secret|key|password|headers|authorization|credential")
_ENOUGH_FILES = 1024
_ENOUGH_SHARED = 1 << 30
_TIMEOUT = 10.0


class State(StrEnum):
    """The result of one test: only a problem makes `wds doctor` fail."""

    GOOD = "ok"
    MISSING = "missing"
    POOR = "low"
    BAD = "problem"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One test, its result, and what to do.

    >>> print(Diagnosis("torch", State.MISSING, "not installed", "pip install 'webdataset[torch]'"))
    missing  torch: not installed – pip install 'webdataset[torch]'
    """

    name: str
    state: State
    what: str
    remedy: str = ""

    def __str__(self) -> str:
        remedy = f" – {self.remedy}" if self.remedy else ""
        return f"{self.state:<8} {self.name}: {self.what}{remedy}"


def doctor(addresses: Sequence[str] = ()) -> list[Diagnosis]:
    """Test this machine, and whether each address can be read.

    Args:
        addresses: shards, folders or buckets to read from, with the configured credentials.
    """
    return [*_machine(), *_packages(), *_settings(), *_credentials(), *map(_test_address, addresses)]


def _machine() -> Iterator[Diagnosis]:
    yield Diagnosis("python", State.INFO, f"{platform.python_version()} on {platform.platform()}, {sys.executable}")
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    yield Diagnosis("processors", State.INFO, f"{processors}")
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    yield _limit("open files", f"at most {files:,}", "raise it: ulimit -n 65536", enough=files >= _ENOUGH_FILES)
    yield _shared_memory()
    yield _temporary_folder()
    yield _gnu_tar()


def _shared_memory() -> Diagnosis:
    try:
        free = shutil.disk_usage("/dev/shm").free  # noqa: S108 - it is looked at, nothing is written
    except OSError:
        return Diagnosis("shared memory", State.INFO, "there is no /dev/shm")
    remedy = "worker processes transfer batches through it: docker run --shm-size=8g"
    return _limit("shared memory", f"{free / 1e9:.1f} GB are free", remedy, enough=free >= _ENOUGH_SHARED)


def _limit(name: str, what: str, remedy: str, *, enough: bool) -> Diagnosis:
    return Diagnosis(name, State.GOOD, what) if enough else Diagnosis(name, State.POOR, what, remedy)


def _temporary_folder() -> Diagnosis:
    folder = tempfile.gettempdir()
    try:
        with tempfile.TemporaryFile() as file:
            file.write(b"x")
    except OSError as error:
        return Diagnosis("temporary files", State.BAD, f"{folder} cannot be written to: {error}", "set TMPDIR")
    return Diagnosis("temporary files", State.GOOD, f"{folder}, {shutil.disk_usage(folder).free / 1e9:.1f} GB are free")


def _gnu_tar() -> Diagnosis:
    path = shutil.which("tar")
    if path is None:
        return Diagnosis("tar", State.INFO, "not installed; wds does not need it")
    try:
        said = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout  # noqa: S603 - the system's tar
    except OSError as error:
        return Diagnosis("tar", State.BAD, f"{path} cannot be started: {error}", "check the limits of the system")
    return Diagnosis("tar", State.INFO, said.partition("\n")[0])


def _packages() -> Iterator[Diagnosis]:
    """Every requirement of this package: hard ones, then those of the extras."""
    try:
        metadata = importlib.metadata.metadata("webdataset")
    except importlib.metadata.PackageNotFoundError:
        yield Diagnosis("webdataset", State.BAD, "imported from a folder, not installed", "pip install webdataset")
        return
    yield Diagnosis("webdataset", State.GOOD, metadata["Version"])
    for requirement in metadata.get_all("Requires-Dist") or ():
        name = re.match(r"[\w.-]+", requirement)
        extra = re.search(r"extra == ['\"]([\w-]+)['\"]", requirement)
        if name is not None:
            yield _package(name[0], extra[1] if extra else None)


def _package(name: str, extra: str | None) -> Diagnosis:
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        if extra is None:
            return Diagnosis(name, State.BAD, "not installed", f"pip install {name}")
        return Diagnosis(name, State.MISSING, "not installed", f"pip install 'webdataset[{extra}]'")
    return Diagnosis(name, State.GOOD, f"{version}{f' ({extra})' if extra else ''}")


def _settings() -> Iterator[Diagnosis]:
    """The environment variables that are set, without secrets."""
    for name, variable in config.VARIABLES.items():
        try:
            value = config.read(name)
        except WebDatasetError as error:
            yield Diagnosis(name, State.BAD, error.what, error.hint or "")
            continue
        if value != variable.default:
            yield Diagnosis(name, State.INFO, "is set" if _SECRET.search(name) else stores.redacted(str(value)))


def _credentials() -> Iterator[Diagnosis]:
    """The credentials that are configured; the token of the hub is tested."""
    clouds = sorted({name.partition("_")[0] for name, _ in config.cloud()})
    if clouds:
        yield Diagnosis(
            "cloud credentials", State.INFO, f"variables of {', '.join(clouds)}; give an address to try them"
        )
    if config.netrc_path() is not None:
        yield Diagnosis("netrc", State.INFO, str(config.netrc_path()))
    token = config.hub_token()
    if token is not None and not config.read("HF_HUB_OFFLINE"):
        yield _test_hub_token(token)


def _test_hub_token(token: str) -> Diagnosis:
    import urllib3

    url = f"{config.read('HF_ENDPOINT').rstrip('/')}/api/whoami-v2"
    headers = {"Authorization": f"Bearer {token}"}
    try:
        with urllib3.PoolManager(timeout=_TIMEOUT, retries=False) as pool:
            answer = pool.request("GET", url, headers=headers)
    except urllib3.exceptions.HTTPError as error:
        return Diagnosis(
            "Hugging Face token", State.BAD, f"{url} does not answer: {error}", "check the network and HF_ENDPOINT"
        )
    if answer.status >= 400:
        what = f"{url} answers with status {answer.status}"
        return Diagnosis("Hugging Face token", State.BAD, what, "make a new token and set HF_TOKEN")
    name = "an account without a name"
    with suppress(ValueError):
        name = answer.json().get("name", name)
    return Diagnosis("Hugging Face token", State.GOOD, f"is that of {name}")


def _test_address(address: str) -> Diagnosis:
    """Whether an address can be read, and how fast."""
    shown, began = stores.redacted(address), time.perf_counter()
    try:
        what = _read_address(address)
    except (WebDatasetError, OSError) as error:
        hint = getattr(error, "hint", None) or ""
        return Diagnosis(shown, State.BAD, getattr(error, "what", "") or str(error), hint)
    return Diagnosis(shown, State.GOOD, f"{what}, after {(time.perf_counter() - began) * 1000:,.0f} ms")


def _read_address(address: str) -> str:
    if address.endswith("/") or stores.is_pattern(address):
        return f"{len(stores.list_urls(address)):,} objects"
    with stores.open_read(address) as stream:
        first = stream.read(512)
    return f"answers with {len(first)} bytes" if first else "is empty"
