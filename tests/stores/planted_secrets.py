"""A secret in every position of an address, and every text by which an exception may show it."""

import base64
import traceback

from webdataset.errors import WebDatasetError

SECRET = "Zq7S3cr3tW0rd"  # noqa: S105
LONG = "Zq7S3cr3tW0rd9fKq81mPpL0xYvB2n"

# {s} is the secret, {h} host:port. Every position of an address that people put secrets into.
POSITIONS = {
    "user name": "http://{s}@{h}/a.tar",
    "password": "http://me:{s}@{h}/a.tar",
    "password with @": "http://me:x@{s}@{h}/a.tar",
    "escaped password": "http://me:%40{s}@{h}/a.tar",
    "?token=": "http://{h}/a.tar?token={s}",
    "?access_token=": "http://{h}/a.tar?x=1&access_token={s}&y=2",
    "X-Amz-Signature": "http://{h}/a.tar?X-Amz-Algorithm=A&X-Amz-Credential={s}&X-Amz-Signature={s}",
    "X-Goog-Signature": "http://{h}/a.tar?X-Goog-Signature={s}",
    "SAS": "http://{h}/a.tar?sv=2020&se=2021&sr=b&sp=r&sig={s}%3D",
    "CloudFront": "http://{h}/a.tar?Expires=1&Signature={s}&Key-Pair-Id={s}&Policy={s}",
    "key in the query": "http://{h}/a.tar?key={s}",
    "unknown name": "http://{h}/a.tar?q={long}",
    "fragment": "http://{h}/a.tar#{s}",
    "fragment with a name": "http://{h}/a.tar#token={s}",
    "path": "http://{h}/sig={s}/a.tar",
    "path parameter": "http://{h}/a.tar;token={s}",
    "known form": "http://{h}/hf_{long}/a.tar",
    "header of curl": "pipe:curl -sf -H 'Authorization: Bearer {s}' http://{h}/a.tar",
    "own header": 'pipe:curl -sf -H "X-Auth-Token: {s}" http://{h}/a.tar',
    "curl -u": "pipe:curl -sf -u me:{s} http://{h}/a.tar",
    "variable of a command": "pipe:TOKEN={s} false",
    "option": "pipe:false --token {s}",
    "option with =": "pipe:false --password={s} x",
    "address in a command": "pipe:curl -sf http://me:{s}@{h}/a.tar | cat",
    "s3": "s3://{s}:{s}@bucket/a.tar",
    "sftp": "sftp://me:{s}@127.0.0.1:1/a.tar",
    "ftp": "ftp://me:{s}@127.0.0.1:1/a.tar",
    "unknown scheme": "nonsense://me:{s}@h/a.tar?token={s}",
}
FORMS = {SECRET, LONG, base64.b64encode(f"me:{SECRET}".encode()).decode(), base64.b64encode(SECRET.encode()).decode()}


def chain(error, seen=None):
    """An exception and everything that hangs on it."""
    seen = {} if seen is None else seen
    if error is None or id(error) in seen:
        return seen
    seen[id(error)] = error
    for other in (error.__cause__, error.__context__, *(x for x in error.args if isinstance(x, BaseException))):
        chain(other, seen)
    return seen


def shown(error):
    """Every text by which an exception may reach a person, a log or another process."""
    for one in chain(error).values():
        yield from (str(one), repr(one), *map(str, getattr(one, "__notes__", ())))
        if isinstance(one, WebDatasetError):
            yield from (repr(one.where), str(one.hint), one.what)
    lines = traceback.TracebackException.from_exception(error).format()
    # A traceback shows source lines, and those of this test name no secret.
    yield from lines


def assert_clean(texts):
    for text in texts:
        assert not [form for form in FORMS if form in str(text)], text


def address(position, host):
    return POSITIONS[position].format(s=SECRET, long=LONG, h=host)
