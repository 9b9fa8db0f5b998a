"""Rules that turn one address into another: `GOPEN_REWRITE`."""

from __future__ import annotations

import logging
import re
from functools import lru_cache

from webdataset import config
from webdataset.address import Birth, birth_of, like
from webdataset.errors import SpecError
from webdataset.redact import redacted

from ._trust import refuse_rewriting

_log = logging.getLogger(__name__)

Rule = tuple[re.Pattern[str], str]


def rewrite_url(url: str) -> str:
    r"""The address after the first rule of `GOPEN_REWRITE` that changes it.

    >>> import os
    >>> os.environ["GOPEN_REWRITE"] = r"gs://(\w+)/=/mnt/\1/"
    >>> rewrite_url("gs://bucket/a.tar")
    '/mnt/bucket/a.tar'
    >>> del os.environ["GOPEN_REWRITE"]
    """
    rules = config.read("GOPEN_REWRITE")
    if not rules or birth_of(url) is Birth.FILE:  # paths are not rewritten
        return url
    refuse_rewriting()
    for expression, replacement in _parse(rules):
        found = expression.match(url)
        if found is None:
            continue
        changed = found.expand(replacement) + url[found.end() :]
        if changed != url:
            if config.read("GOPEN_VERBOSE"):
                _log.info("rewrote %s to %s", redacted(url), redacted(changed))
            return like(url, changed)
    return url


@lru_cache(maxsize=8)
def _parse(rules: str) -> tuple[Rule, ...]:
    return tuple(_rule(text) for text in rules.split(";") if text)


def _rule(text: str) -> Rule:
    pattern, equals, replacement = text.partition("=")
    hint = "GOPEN_REWRITE is regex=replacement, several separated by ;"
    if not equals or not pattern:
        raise SpecError(f"the rewrite rule {text!r} has no '='", hint=hint)
    try:
        expression = re.compile(pattern)
        expression.sub(replacement, "")
    except (re.error, IndexError) as error:
        raise SpecError(f"the rewrite rule {text!r} is invalid: {error}", hint=hint) from error
    return expression, replacement
