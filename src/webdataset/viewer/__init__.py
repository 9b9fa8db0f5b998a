"""The viewer: a dataset in the browser. In: shards. Out: a page and its JSON endpoints on the loopback interface.

It only reads. It runs no code from the data: no pickle is loaded, no markup is rendered, and addresses from the data
are opened only if `stores` permits it.

The server:
    _view_server       the server of the page and the endpoints
    _request_checks    which requests are answered: token, cookie, Host, Origin; security headers
    _endpoints         JSON, pictures and bytes; `docs/viewer.md` describes them
    _http_range        HTTP Range: parts of a field, read by offset from a shard
    _background_jobs   work that takes longer than a request
The data:
    _catalog           all samples by number; counts shards in the background
    _shard_view        the samples of one shard, by its index or from a stream
    _cells             cells of the grid, the page of a sample
    _field_kind        how a field is shown, by its name
    _field_content     the content of a field as JSON
    _thumbnail         pictures of a bounded size
    _filter_samples    expressions and SQL
    _facets            counts of fields, labels, sizes, resolutions
    _find_problems     checks, near duplicates, differences
    _model_input       items of the user's pipeline, as the model gets them
    _notebook_preview  the page in a notebook
The page itself is in `page/`: one HTML file, its style, and ES modules.
"""

from ._catalog import Catalog
from ._model_input import ModelInput, read_checkpoint
from ._notebook_preview import Preview, preview, sample_html
from ._view_server import ViewServer

__all__ = [
    "Catalog",
    "ModelInput",
    "Preview",
    "ViewServer",
    "preview",
    "read_checkpoint",
    "sample_html",
]
