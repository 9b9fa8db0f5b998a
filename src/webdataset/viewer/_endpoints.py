"""The endpoints: JSON, pictures, and bytes by HTTP Range. `docs/viewer.md` describes each."""

from __future__ import annotations

import json
import threading
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any
from urllib.parse import quote

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from webdataset import stores, tools
from webdataset.errors import MissingDependency, ShardNotFound, SpecError, StoreError, WebDatasetError

from ._background_jobs import Job, Jobs, error_words
from ._catalog import Catalog, Found
from ._cells import cells, sample_page
from ._facets import count_facets, shard_rows
from ._field_content import load_array, open_member, waveform
from ._field_kind import OCTETS, FieldKind, field_kind, media_type
from ._filter_samples import Matches, filter_samples, run_sql
from ._find_problems import check_dataset, compare, find_duplicates
from ._http_range import NotSatisfiable, Part, asked_part, portions
from ._model_input import ModelInput
from ._shard_view import Member, member_named
from ._thumbnail import array_picture, check_fetch, checked_image, first_frame, shrink_image

_MOST_CELLS = 200
_MOST_BODY = 20_000
_EDGES = range(16, 2049)
# The security policy of fields: nothing in them can run, for any type that a browser assumes.
_SANDBOX = "default-src 'none'; style-src 'none'; sandbox"

Answer = Callable[[Request], Any]


class Endpoints:
    """The endpoints for one dataset, or for two versions of it.

    Args:
        catalogs: the dataset, and maybe another version of it to compare with.
        jobs: work in the background.
        model: the items of the user's pipeline, if one was given.
        index: where indexes are kept.
        ending: is set when the server ends: waits for a store are then cancelled.
    """

    def __init__(
        self,
        catalogs: list[Catalog],
        jobs: Jobs,
        model: ModelInput | None,
        index: str | None,
        ending: threading.Event,
    ) -> None:
        self._catalogs, self._jobs, self._model, self._index = catalogs, jobs, model, index
        self._ending = ending

    def routes(self) -> list[Route]:
        """All addresses below /api."""
        table: dict[str, tuple[str, Answer]] = {
            "/api/dataset": ("GET", self.dataset),
            "/api/shards": ("GET", self.shards),
            "/api/cells": ("GET", self.cells),
            "/api/find": ("GET", self.find),
            "/api/sample/{number:int}": ("GET", self.sample),
            "/api/picture/{number:int}/{field:path}": ("GET", self.picture),
            "/api/waveform/{number:int}/{field:path}": ("GET", self.waveform),
            "/api/field/{number:int}/{field:path}": ("GET", self.field),
            "/api/jobs": ("POST", self.start_job),
            "/api/jobs/{job:int}": ("GET", self.job),
            "/api/jobs/{job:int}/cancel": ("POST", self.cancel_job),
            "/api/model/{step:int}": ("GET", self.model),
        }
        return [
            Route(path, _answered(answer, self._ending), methods=[method]) for path, (method, answer) in table.items()
        ]

    def dataset(self, request: Request) -> Any:
        """The number of samples and shards so far, and the problems of shards."""
        catalog = self._catalog(request)
        problems = [problem._asdict() for problem in list(catalog.problems.values())[:20]]
        return {
            "samples": len(catalog),
            "complete": catalog.complete,
            "shards": len(catalog.urls),
            "shards_counted": catalog.shards_counted,
            "first_shard": shard_rows(catalog)[0]["shard"],
            "problems": problems,
            "problem_count": len(catalog.problems),
            "compare": len(self._catalogs) > 1,
            "pipeline": self._model is not None,
            "sql": _has_duckdb(),
        }

    def shards(self, request: Request) -> Any:
        """Shards with their counts and first numbers."""
        return {"shards": shard_rows(self._catalog(request))}

    def cells(self, request: Request) -> Any:
        """Cells of the grid: samples by number, or by their position in the matches of a filter."""
        catalog = self._catalog(request)
        start, count = _integer(request, "start", 0), _integer(request, "count", 50)
        if start < 0 or not 0 <= count <= _MOST_CELLS:
            raise SpecError(f"expected a start from 0 and at most {_MOST_CELLS} cells")
        if "job" in request.query_params:
            job = self._jobs.get(_integer(request, "job", 0))
            matches = job.result or job.partial
            if not isinstance(matches, Matches):
                return {"total": 0, "cells": []}
            total = len(matches.numbers)
            return {"total": total, "cells": cells(catalog, matches.numbers[start : start + count].tolist())}
        total = len(catalog)
        return {"total": total, "cells": cells(catalog, range(start, min(start + count, total)))}

    def find(self, request: Request) -> Any:
        """The number of the sample with a key, or of the first sample of a shard."""
        catalog = self._catalog(request)
        if "shard" in request.query_params:
            return {"number": catalog.first_number(_integer(request, "shard", 0))}
        return {"number": catalog.find(request.query_params.get("key", ""))}

    def sample(self, request: Request) -> Any:
        """Everything about one sample."""
        return sample_page(self._catalog(request), request.path_params["number"])

    def picture(self, request: Request) -> Any:
        """A small picture of a field, or with `size=0` the image itself if it is safe to decode."""
        found, member = self._member(request)
        edge = _integer(request, "size", 256)
        kind = field_kind(member.field)
        if kind is FieldKind.IMAGE:
            check_fetch(member.size)
            data = bytes(found.view.samples([found.inside], [member.field])[0][member.field])
            if edge == 0 and media_type(member.field) != OCTETS:
                return _picture(checked_image(data), media_type(member.field))
            return _picture(*shrink_image(data, _checked_edge(edge)))
        if kind is FieldKind.VIDEO:
            return _picture(*first_frame(open_member(found.view, found.inside, member), _checked_edge(edge)))
        if kind is FieldKind.ARRAY:
            picture = array_picture(load_array(found.view, found.inside, member), _checked_edge(edge))
            if picture is not None:
                return _picture(*picture)
        raise SpecError(f"the field {member.field!r} is not an image")

    def waveform(self, request: Request) -> Any:
        """The peaks of a sound."""
        found, member = self._member(request)
        return waveform(open_member(found.view, found.inside, member))

    def field(self, request: Request) -> Any:
        """The bytes of a field, or a range of them. Only media have a type; other fields are downloads."""
        found, member = self._member(request)
        part = asked_part(request.headers.get("range"), member.size)
        source, offset = found.view.opened(found.inside, member)
        if member.size:  # an error of reading is raised now, not in the middle of the answer
            source.read(offset + (part.first if part else 0), 1)
        chosen = part or Part(0, member.size)
        headers = {
            "accept-ranges": "bytes",
            "content-length": str(chosen.stop - chosen.first),
            "content-security-policy": _SANDBOX,
        }
        media = media_type(member.field)
        if media == OCTETS or "download" in request.query_params:
            name = f"{found.view.key(found.inside).rpartition('/')[2]}.{member.field}"
            headers["content-disposition"] = f"attachment; filename*=UTF-8''{quote(name, safe='', errors='replace')}"
            media = OCTETS
        if part is not None:
            headers["content-range"] = f"bytes {part.first}-{part.stop - 1}/{member.size}"
        body = portions(source, offset, chosen, self._ending)
        return StreamingResponse(body, 206 if part else 200, headers=headers, media_type=media)

    async def start_job(self, request: Request) -> Any:
        """Start work in the background: a filter, SQL, facets, a check, duplicates, a comparison."""
        if request.headers.get("content-type", "").partition(";")[0] != "application/json":
            raise SpecError("expected a body of application/json")
        body = b""
        async for portion in request.stream():
            body += portion
            if len(body) > _MOST_BODY:
                raise SpecError(f"the body is larger than {_MOST_BODY} bytes")
        try:
            asked = json.loads(body)
        except ValueError as error:
            raise SpecError("the body is not JSON") from error
        if not isinstance(asked, dict):
            raise SpecError("expected a JSON object")
        return self._start(asked).words()

    def _start(self, asked: Mapping[str, Any]) -> Job:
        name, text = str(asked.get("name")), str(asked.get("text", ""))
        catalog = self._catalogs[0]
        if name == "filter":
            work = partial(filter_samples, catalog, tools.Expression(text))
            return self._jobs.start(name, (name, text, len(catalog)), work)
        if name == "sql":
            return self._jobs.start(name, (name, text), partial(run_sql, catalog, text, self._index))
        if name == "facets":
            return self._jobs.start(name, (name, len(catalog)), partial(count_facets, catalog))
        if name == "check":
            return self._jobs.start(name, name, partial(check_dataset, catalog, self._index))
        if name == "duplicates":
            return self._jobs.start(name, (name, len(catalog)), partial(find_duplicates, catalog))
        if name == "compare" and len(self._catalogs) > 1:
            return self._jobs.start(name, name, partial(compare, catalog, self._catalogs[1]))
        raise SpecError(f"there is no job {name!r}", hint="filter, sql, facets, check, duplicates, or compare")

    def job(self, request: Request) -> Any:
        """How far a job is, and its result."""
        job = self._jobs.get(request.path_params["job"])
        words = job.words()
        found = job.result or job.partial
        if isinstance(found, Matches):
            words["result"] = {"matches": len(found.numbers), "failed": found.failed, "reason": found.reason}
        else:
            words["result"] = job.result
        return words

    def cancel_job(self, request: Request) -> Any:
        """Stop a job."""
        job = self._jobs.get(request.path_params["job"])
        job.cancel()
        return job.words()

    def model(self, request: Request) -> Any:
        """The item of the user's pipeline at a step."""
        if self._model is None:
            raise SpecError("no pipeline was given", hint="start with `wds view --pipeline module:make`")
        return self._model.step(request.path_params["step"], _integer(request, "draws", 1))

    def _catalog(self, request: Request) -> Catalog:
        which = _integer(request, "version", 0)
        if not 0 <= which < len(self._catalogs):
            raise SpecError(f"there is no version {which} of the dataset", hint="start with --compare")
        return self._catalogs[which]

    def _member(self, request: Request) -> tuple[Found, Member]:
        found = self._catalog(request).at(request.path_params["number"])
        return found, member_named(found.view, found.inside, request.path_params["field"])


def _answered(answer: Answer, ending: threading.Event) -> Callable[[Request], Awaitable[Response]]:
    """An endpoint on a thread of its own, with its errors as JSON."""
    from inspect import iscoroutinefunction

    def on_thread(request: Request) -> Any:
        with stores.abandonable(ending):
            return answer(request)

    async def respond(request: Request) -> Response:
        try:
            if iscoroutinefunction(answer):
                found = await answer(request)
            else:
                found = await run_in_threadpool(on_thread, request)
        except Exception as error:  # shown in place of the data
            return JSONResponse(error_words(error), _status(error))
        return found if isinstance(found, Response) else _json(found)

    return respond


def _json(value: Any) -> Response:
    """JSON in ASCII: without halves of surrogate pairs, and without text that could be read as markup."""
    return Response(json.dumps(value), media_type="application/json")


_STATUS: tuple[tuple[type[Exception], int], ...] = (
    (NotSatisfiable, 416),
    (ShardNotFound, 404),
    (IndexError, 404),
    (SpecError, 400),
    (MissingDependency, 501),
    (StoreError, 502),
    (WebDatasetError, 422),
)


def _status(error: Exception) -> int:
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)


def _picture(data: bytes, media: str) -> Response:
    return Response(data, media_type=media, headers={"content-security-policy": _SANDBOX})


def _checked_edge(edge: int) -> int:
    if edge == 0:
        return _EDGES[-1]
    if edge not in _EDGES:
        raise SpecError(f"expected a size from {_EDGES[0]} to {_EDGES[-1]}, got {edge}")
    return edge


def _integer(request: Request, name: str, default: int) -> int:
    text = request.query_params.get(name)
    if text is None:
        return default
    if not text.lstrip("-").isascii() or not text.lstrip("-").isdigit() or len(text) > 18:
        raise SpecError(f"expected a number for {name}, got {text[:40]!r}")
    return int(text)


def _has_duckdb() -> bool:
    from importlib.util import find_spec

    return find_spec("duckdb") is not None
