"""The server of the page and the endpoints, on the loopback interface."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

from webdataset.errors import StoreError
from webdataset.optional import require

from ._background_jobs import Jobs
from ._catalog import Catalog
from ._model_input import ModelInput

_PAGE = Path(__file__).parent / "page"
_HOST = "127.0.0.1"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
}
_CHECK_EVERY = 0.25


class ViewServer:
    """A page that shows a dataset, on the loopback interface.

    Args:
        inputs: shards in any form, or a description.
        port: where to listen; 0 takes a free one.
        index: where indexes are kept; by default next to the shards.
        compare: another version of the dataset.
        model: the items of the user's pipeline.
        embedded: whether notebooks on this machine may show the page in a frame.
    """

    def __init__(
        self,
        inputs: str | Sequence[str],
        *,
        port: int = 0,
        index: str | None = None,
        compare: str | Sequence[str] | None = None,
        model: ModelInput | None = None,
        embedded: bool = False,
    ) -> None:
        uvicorn = _uvicorn()
        from ._request_checks import CheckedApp, Tokens

        self._tokens = Tokens()
        self._ending = threading.Event()
        self._jobs = Jobs(self._ending)
        self._socket = _listen(port)
        self.port: int = self._socket.getsockname()[1]
        self._catalogs: list[Catalog] = []
        self._thread: threading.Thread | None = None
        self._last_request = time.monotonic()
        try:
            for shards in (inputs, compare):
                if shards is not None:
                    self._catalogs.append(Catalog(shards, index))
        except BaseException:
            self._close_data()
            raise
        app = CheckedApp(self._application(model, index), self._tokens, self.port, embedded=embedded)

        async def watched(scope: Any, receive: Any, send: Any) -> None:
            self._last_request = time.monotonic()
            await app(scope, receive, send)

        settings = uvicorn.Config(
            watched,
            http="h11",
            ws="none",
            lifespan="off",
            log_level="error",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=2,
        )
        self._server = uvicorn.Server(settings)

    def new_address(self) -> str:
        """An address with a token of its own; it opens the page once."""
        return f"http://{_HOST}:{self.port}/?token={self._tokens.new()}"

    @property
    def idle_seconds(self) -> float:
        """The seconds since the last request."""
        return time.monotonic() - self._last_request

    def start(self) -> Self:
        """Serve from a thread of its own, until `close`."""
        self._thread = threading.Thread(target=self._run, name="wds-view", daemon=True)
        self._thread.start()
        return self

    def join(self, until: Callable[[], bool] = lambda: False) -> None:
        """Wait until the server ends, or until a condition holds."""
        while self._thread is not None and self._thread.is_alive() and not until():
            self._thread.join(_CHECK_EVERY)

    def close(self) -> None:
        """End the server, the jobs and the threads; remove temporary files. Waits for a store are cancelled."""
        self._ending.set()
        self._server.should_exit = True
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self._close_data()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self) -> None:
        self._server.run(sockets=[self._socket])

    def _close_data(self) -> None:
        self._ending.set()
        for catalog in self._catalogs:
            catalog.stop()  # first: a job may wait until all shards are counted
        self._jobs.close()
        for catalog in self._catalogs:
            catalog.close()
        self._socket.close()

    def _application(self, model: ModelInput | None, index: str | None) -> Any:
        from starlette.applications import Starlette
        from starlette.responses import Response
        from starlette.routing import Route

        from ._endpoints import Endpoints

        # Read once: requests can name these files only.
        files = {f"/{path.name}": (path.read_bytes(), _TYPES[path.suffix]) for path in _PAGE.iterdir()}
        files["/"] = files["/index.html"]

        def page(request: Any) -> Response:
            data, media = files[request.url.path]
            return Response(data, media_type=media)

        routes = [Route(path, page, methods=["GET"]) for path in files]
        routes += Endpoints(self._catalogs, self._jobs, model, index, self._ending).routes()
        return Starlette(routes=routes)


def _listen(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((_HOST, port))
        listener.listen(256)
    except OSError as error:
        listener.close()
        raise StoreError(f"cannot listen on port {port}: {error.strerror}", hint="choose another --port") from error
    return listener


def _uvicorn() -> Any:
    require("starlette", extra="view", why="to show a dataset")
    return require("uvicorn", extra="view", why="to show a dataset")
