"""The redactor itself: what it hides, what it leaves, and that it ends."""

from pathlib import Path

import pytest

import webdataset as wds
from planted_secrets import LONG, POSITIONS, SECRET, address, assert_clean, shown
from webdataset.redact import redacted, scrub


@pytest.mark.parametrize("position", POSITIONS)
def test_redacted_text_stays_redacted(position):
    once = redacted(address(position, "h:80"))
    assert SECRET not in once and LONG not in once and redacted(once) == once
    assert SECRET not in redacted(f"cannot open '{address(position, 'h:80')}' (twice: {address(position, 'h:80')})")


@pytest.mark.parametrize("text", [
    "https://me:x'{}@h/a.tar", "https://me'x:{}@h/a.tar", "https://h/a.tar?token=x'{}", "https://h/a.tar?token=x/{}?y",
    "https://h/a.tar?x=1&sig=a'b/{}", "https://h/a.tar?pw={}", "https://h/a.tar?sas={}", "https://h/a.tar?x;key={}",
    "AccountName=me;AccountKey={};EndpointSuffix=x", "pipe:curl -ume:{} h", "pipe:sshpass -p {} ssh h cat a.tar",
    "pipe:aws s3 cp --sse-c-key {} s3://b/a.tar -", "pipe:rclone cat --sftp-pass {} x", "wrote 'https://h/a?token=x/{}'",
    "https://h/a.tar?%74oken={}", "https://h/a.tar?x=1&%4b%65%79={}", "https://h/a.tar?x;p%77={}", "//me:{}@h/a.tar", "//{}@h/a.tar",
    "cannot open '//me:{}@h/a.tar'", "https:/me:{}@h/a.tar", "pipe:curl -b x={} h", "pipe:curl -b 'x=1; y={}' h", "pipe:curl -bx={} h",
    "pipe:curl -x me:{}@h a", "pipe:curl -xme:{}@h a", "pipe:curl -x 'me:a/{}@h' a", "pipe:curl --proxy=me:{}@h a", "pipe:https_proxy=me:{}@h curl a",
    "pipe:curl -H Authorization:Bearer\\ {} h", "pipe:curl -H Authorization:\\ Bearer\\ {} h", "pipe:curl -HAuthorization:{} h",
    "pipe:curl -H 'X-Own: {}' h", 'pipe:curl --header "X-Own: a {}" h', "pipe:curl -H 'Cookie: a=1; b={}' h", "Cookie: a=1; b={}",
    "pipe:curl -sfu me:{} h", "pipe:curl -E c.pem:{} h", "pipe:curl --cert c.pem:{} h", "pipe:curl --pass {} h", "pipe:curl --pass={} h",
    "pipe:sshpass -p{} ssh h", "pipe:openssl enc -d -pass pass:{} -in a", "pipe:openssl enc -d -k {} -in a", "pipe:unzip -p -P {} a.zip",
    "pipe:7z x -so -p{} a.7z", "pipe:aws s3 cp s3://b/a - --sse-c-key={}", "pipe:rclone cat :s3,access_key_id=x,secret_access_key='{}'",
    "https://h/a.tar?token[]={}", "https://h/a.tar?x=1&token%5B%5D={}", "https://h/a.tar?ticket={}", "https://h/a.tar?verify={}",
    "https://h/get?url=https%3A%2F%2Fme%3A{}%40h%2Fa.tar", "https%3a%2f%2f{}%40h%2fa.tar", "https://h/get?url=https%3A%2F%2Fh%2Fa.tar%3Ftoken%3D{}%26x=1",
    "https%3A%2F%2Fh%2Fa.tar%3Fpart%3D1%26sig%3D{}", "pipe:curl -sH 'X-Own: {}' h", "pipe:curl -fsSLH X-Own:{} h", 'pipe:curl -sfH "X-Own: a {}" h',
    "pipe:SSHPASS={} sshpass -e ssh h", "pipe:export RESTIC_KEY='{}'; x", "pipe:env DB_PASS={} x", "pipe:MY_AUTH={} x", "pipe:rclone cat :sftp,host=h,pass={}:a",
    "pipe:http -a me:{} GET h", "pipe:xh -a {} h", "pipe:http --auth me:{} h",
])  # fmt: skip
def test_other_spellings(text):
    once = redacted(text.format(SECRET))
    assert SECRET not in once and redacted(once) == once


HOSTILE = [
    "https://",
    "token",
    "token-",
    "eyJ-",
    "?key_",
    "://",
    "'a",
    " -u",
    "a-",
    "=a",
    "--a-",
    "#",
    "\\'token",
    "sig_",
    "&%74",
    "&a%",
    "//",
    "=//a",
    "http:/",
    " -x a",
    " -x:",
    "_proxy=",
    " -b a",
    "bearer\\ ",
    "%3a%2f%2f",
    "%3a%2f%2fa",
    "%3ftoken",
    "%3ftoken%3d",
    "%26",
    "PASS",
    ",pass=",
    "http ",
    " -a ",
    "http -a",
    "openssl ",
    "7z ",
    " -H a:",
    " -uu",
    "cookie: a;a=b",
]


@pytest.mark.parametrize("piece", HOSTILE)
def test_a_hostile_text_of_any_length_takes_linear_time(piece):
    """Quadratic time would be hours for this length."""
    assert redacted("=@" + piece * (150_000 // len(piece))).startswith("=")


@pytest.mark.parametrize("text", [
    "'https://h/a.tar?part=1', 'https://h/b.tar'", "give --key FIELD or --keys FILE", "cp -p a b", "mkdir -p x",
    "data/a.tar", "/data/key=7/a.tar", "s3://b/a#1.tar", "hf://datasets/me/cats@refs/pr/1/train/0.tar", "a=b.tar",
    "ais://@cluster#space/b/a.tar", "https://h:8080/a@b/c.tar", "https://h/a.tar?part=2&versionId=abc", "train-{000..999}.tar",
    "https://h/get?file=imagenet-train-000123.tar", "sample 0001, a.tar, byte 5", "ais://b/a.tar?etl_name=resize",
    "pipe:awk '{print $1}' < x | tar c *.jpg", "map(f, key='x')", "the server answered 401 Unauthorized: because of this",
    "AWS_SKIP_SIGNATURE=true", "expected 3, got 4", "unexpected token: '<'", "C:\\data\\a.tar",
    "https://h/a.tar?p=3&access=public", "https://h/a.tar?na%6de=x", "s3://b//x@1/a.tar", "a // b@c", "pipe:tar -x -b 20 a@b", "tar -x s3://b/a@2:c",
    "https:/h/a.tar", "x //h/a.tar", "http_proxy=h:80", "curl -x h:80 https://h/a.tar", "curl -sf https://h:80/a.tar",
    "grep -e a:b x", "psql -h h:80", "unzip -p a.zip", "7z x -so a.7z", "tar -ru a", "bypass: x", "openssl md5 a",
    "https%3A%2F%2Fh%2Fa%2Fb.tar%3Fpart%3D1", "/data/KEY=7/a.tar", "s3://b/PASS=1/a.tar", "https://h/a -a b", "bypass=1", "pipe:tar -a x", "100%40",
])  # fmt: skip
def test_ordinary_text_stays_as_it_is(text):
    assert redacted(text) == text


def test_an_exception_of_another_library_is_redacted_with_all_its_causes():
    url = f"https://me:{SECRET}@h/a.tar"
    try:
        try:
            try:
                open(f"/nowhere/{url}")
            except OSError as error:
                raise KeyError(url) from error
        except KeyError:
            raise RuntimeError(ValueError(f"GET {url}?token={SECRET}"))  # noqa: B904
    except RuntimeError as error:
        error.add_note(url)
        scrub(error)
        assert_clean(shown(error))
    group = ExceptionGroup(f"of {url}", [ValueError(url)])
    scrub(group)
    assert SECRET not in str(group.exceptions[0])


def test_the_sources_know_one_redactor():
    """No second list of secret words anywhere: the boundary is one file."""
    source = Path(wds.__file__).parent
    others = [p for p in source.rglob("*.py") if "x-amz" in p.read_text().lower() and p.name != "redact.py"]
    assert others == []


def test_every_warning_passes_it():
    """`warn` alone makes warnings: an address in one that does not pass it has its password."""
    source = Path(wds.__file__).parent
    files = [*source.rglob("*.py"), *(source.parent / "wids").rglob("*.py")]
    assert [path.name for path in files if "warnings.warn(" in path.read_text()] == ["redact.py"]
