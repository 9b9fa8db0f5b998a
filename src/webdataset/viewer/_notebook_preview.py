"""The page in a notebook: `preview(dataset)`, and samples as HTML tables."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

from webdataset.errors import SpecError
from webdataset.stores import Closing

from ._model_input import ModelInput, shown_entries
from ._view_server import ViewServer


class Preview(Closing):
    """A running viewer; a notebook shows it as a frame. `close()` ends it; it also ends with the process.

    Args:
        server: the server, started.
        height: of the frame, in pixels.
    """

    def __init__(self, server: ViewServer, height: int = 640) -> None:
        self._server, self._height = server, height

    @property
    def address(self) -> str:
        """An address that opens the page once, in a browser on this machine."""
        return self._server.new_address()

    def _repr_html_(self) -> str:
        # A notebook is at localhost; the same name makes the frame's cookie one of the same site.
        address = html.escape(self.address.replace("127.0.0.1", "localhost"), quote=True)
        return f'<iframe title="dataset" src="{address}" width="100%" height="{self._height}"></iframe>'

    def close(self) -> None:
        """End the server."""
        self._server.close()


def preview(data: Any, *, height: int = 640, index: str | None = None) -> Preview:
    """Show shards, or the items of a dataset or loader, in a notebook.

    Args:
        data: shards in any form that `wds view` takes, or a dataset or loader, whose items are shown as the model gets
            them.
        height: of the frame, in pixels.
        index: where indexes are kept; by default next to the shards.
    """
    if isinstance(data, str) or (isinstance(data, Sequence) and data and all(isinstance(each, str) for each in data)):
        return Preview(ViewServer(data, index=index, embedded=True).start(), height)
    urls = _shards_of(data)
    model = ModelInput(lambda: data, owned=False)
    return Preview(ViewServer(urls, index=index, model=model, embedded=True).start(), height)


def _shards_of(data: Any) -> list[str]:
    """The shards that a dataset, or the dataset of a loader, reads."""
    dataset = getattr(data, "dataset", data)
    dataset = getattr(getattr(dataset, "plan", None), "dataset", dataset)
    urls = getattr(dataset, "urls", None)
    if urls is None and getattr(dataset, "pipeline", None):
        urls = getattr(dataset.pipeline[0], "urls", None)
    if not urls:
        raise SpecError("the shards of this dataset are not known", hint="give the shards: preview('train-{0..9}.tar')")
    return list(urls)


def sample_html(item: Mapping[str, Any] | Sequence[Any]) -> str:
    """A sample or a batch as an HTML table: arrays as pictures, other values as text, everything escaped.

    >>> sample_html({"txt": "<b>"})
    '<table><tr><th>txt</th><td><pre>&#x27;&lt;b&gt;&#x27;</pre></td></tr></table>'
    """
    rows = []
    for entry in shown_entries(item):
        array = entry.get("array")
        text = f"{array['dtype']} {array['shape']}" if array else entry["text"]
        pictures = "".join(f'<img alt="" src="{html.escape(source, quote=True)}">' for source in entry["pictures"])
        rows.append(f"<tr><th>{html.escape(entry['name'])}</th><td>{pictures}<pre>{html.escape(text)}</pre></td></tr>")
    return f"<table>{''.join(rows)}</table>"
