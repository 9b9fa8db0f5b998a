"""Addresses without their secrets, for messages and logs."""

from __future__ import annotations

import re

# user:password@ of any URL, and the query words under which clouds and hubs pass signatures and tokens.
_USERINFO = re.compile(r"(?<=://)[^/?#@\s]*:[^/?#@\s]*@")
_SECRET = re.compile(
    r"(?i)([?&](?:x-amz-(?:signature|credential|security-token)|x-goog-(?:signature|credential)|signature|sig|token|"
    r"access_token|key|api_key|password|awsaccesskeyid)=)[^&\s]+"
)


def redacted(url: str) -> str:
    """The address with passwords, tokens and signatures blotted out.

    >>> redacted("https://me:secret@h/a.tar?sig=abc&part=2")
    'https://***@h/a.tar?sig=***&part=2'
    """
    return _SECRET.sub(r"\1***", _USERINFO.sub("***@", url))
