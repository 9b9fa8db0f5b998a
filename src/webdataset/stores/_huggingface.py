"""`hf://`: datasets, models, spaces and buckets of the Hugging Face hub, through its HTTP interface.

The token is sent in a header of requests to the hub, never in a command line, a log or a request to another host.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Any
from urllib.parse import quote, unquote

from webdataset import config
from webdataset.errors import SpecError, StoreError, Where
from webdataset.optional import require

from ._http import HttpStore
from ._parse_address import refuse_another_name
from ._request import Request, every_page, request_list
from ._resuming_stream import persist
from ._upload import SpooledUpload

_ADDRESS = re.compile(
    r"hf://(?:(datasets|models|spaces|buckets)/)?([^/@]+/[^/@]+)(?:@(refs/(?:pr|convert)/[^/]+|[^/]+))?(?:/(.*))?"
)


@dataclass(frozen=True, slots=True)
class HubAddress:
    """The parts of an `hf://` address.

    >>> HubAddress.parse("hf://datasets/me/cats@refs/pr/1/train/0.tar")
    HubAddress(kind='datasets', repository='me/cats', revision='refs/pr/1', path='train/0.tar')
    >>> HubAddress.parse("hf://me/model/weights.tar").kind
    'models'
    """

    kind: str
    repository: str
    revision: str
    path: str

    @classmethod
    def parse(cls, url: str) -> HubAddress:
        """Parse an address."""
        found = _ADDRESS.fullmatch(url)
        if found is None:
            raise SpecError(
                "malformed hf:// address",
                Where(shard=url),
                hint="write hf://datasets/NAMESPACE/NAME[@REVISION]/PATH, hf://NAMESPACE/MODEL/PATH or hf://buckets/…",
            )
        kind, repository, revision, path = found.groups()
        refuse_another_name(url, f"{repository}/{path or ''}")
        return cls(kind or "models", repository, unquote(revision or "main"), path or "")

    @property
    def root(self) -> str:
        """The beginning of all addresses of the repository."""
        kind = "" if self.kind == "models" else f"{self.kind}/"
        revision = "" if self.revision == "main" else f"@{quote(self.revision, safe='/')}"
        return f"hf://{kind}{self.repository}{revision}/"

    def download(self) -> str:
        """The web address of the file."""
        if self.kind == "buckets":
            return f"{_hub_endpoint()}/buckets/{self.repository}/resolve/{quote(self.path, safe='')}"
        kind = "" if self.kind == "models" else f"{self.kind}/"
        return f"{_hub_endpoint()}/{kind}{self.repository}/resolve/{quote(self.revision, safe='')}/{quote(self.path)}"

    def tree(self, folder: str) -> str:
        """The web address of the list of files below a folder."""
        base = f"{_hub_endpoint()}/api/{self.kind}/{self.repository}/tree"
        if self.kind == "buckets":
            return f"{base}{'/' + quote(folder, safe='') if folder else ''}?recursive=true"
        return f"{base}/{quote(self.revision, safe='')}{'/' + quote(folder) if folder else ''}?recursive=true"


class HuggingFaceStore(HttpStore):
    """The hub; `HF_TOKEN`, `HF_ENDPOINT`, `HF_HOME` and `HF_HUB_OFFLINE` work as in its own library."""

    kind = "hf"

    def target(self, url: str) -> Request:
        return Request.to(_file_address(url).download(), _authorization(url))

    def open_write(self, url: str) -> SpooledUpload:
        address = _file_address(url)

        def send(spool: IO[bytes], size: int) -> None:
            _upload(address, spool, url)

        return SpooledUpload(send)

    def list(self, prefix: str) -> Iterator[str]:
        address = HubAddress.parse(prefix)
        first = Request.to(address.tree(address.path.rpartition("/")[0]), _authorization(prefix))
        paths = every_page(lambda page: persist(lambda: _page(page), prefix, self.patience, self.kind), first)
        return (address.root + path for path in paths if path.startswith(address.path))


def _file_address(url: str) -> HubAddress:
    address = HubAddress.parse(url)
    if not address.path:
        raise SpecError("the address names no file", Where(shard=url), hint=f"write {address.root}PATH")
    return address


def _page(page: Request) -> tuple[list[str], Request | None]:
    """Paths of files, and the request for the next page, which is checked like a redirect."""

    def read(items: Any, headers: Mapping[str, str]) -> tuple[list[str], str | None]:
        following = re.search(r'<([^>]+)>;\s*rel="next"', headers.get("Link", ""))
        return [item["path"] for item in items if item.get("type") == "file"], following[1] if following else None

    paths, following = request_list(page, read, "HF_ENDPOINT")
    return paths, page.moved(following) if following else None


def _upload(address: HubAddress, spool: IO[bytes], url: str) -> None:
    library = require("huggingface_hub", extra="hf", why="to write to hf://")
    hub = library.HfApi(endpoint=_hub_endpoint(), token=config.hub_token() or False)
    try:
        if address.kind == "buckets":
            hub.batch_bucket_files(address.repository, add=[(spool.read(), address.path)])
        else:
            hub.upload_file(
                path_or_fileobj=getattr(spool, "_file", spool),  # the library expects a file of `io`
                path_in_repo=address.path,
                repo_id=address.repository,
                repo_type=address.kind.removesuffix("s"),
                revision=address.revision,
                commit_message=f"Add {address.path}",
            )
    except (OSError, ValueError) as error:
        raise StoreError(f"the hub rejected the file: {error}", Where(shard=url), hint="check HF_TOKEN") from error


def _hub_endpoint() -> str:
    endpoint: str = config.read("HF_ENDPOINT")
    return endpoint.rstrip("/")


def _authorization(url: str) -> dict[str, str]:
    if config.read("HF_HUB_OFFLINE"):
        raise StoreError("HF_HUB_OFFLINE is set", Where(shard=url), hint="unset it, or use a local copy")
    token = config.hub_token()
    return {"Authorization": f"Bearer {token}"} if token else {}
