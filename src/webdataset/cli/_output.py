"""Output of all verbs: results, progress bars, errors as one sentence, exit codes.

Exit codes: 0 success, 1 the work failed or is incomplete, 2 wrong usage, 130 interrupted, 141 the reader of standard
output has ended. Data and `--json` go to standard output, everything else to standard error.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import click

from webdataset.errors import WebDatasetError
from webdataset.redact import printable, redacted

INTERRUPTED = 130
BROKEN_PIPE = 141

Advance = Callable[[int], None]


@dataclasses.dataclass
class Console:
    """How the running verb prints."""

    as_json: bool = False
    quiet: bool = False
    verbose: int = 0
    traceback: bool = False
    stdout_is_taken: bool = False  # data goes there, so a report must not

    def say(self, text: str) -> None:
        """Print a line on standard error, unless the run is quiet."""
        if not self.quiet:
            echo(text, err=True)

    def warn(self, text: str) -> None:
        """Print a line on standard error, also in a quiet run."""
        echo(text, err=True)

    def result(self, value: Any, text: str | None = None) -> None:
        """Print the result: as JSON with `--json`, else the text.

        Args:
            value: a dataclass, or any value of JSON.
            text: the report for people; the data of the verb are elsewhere, so it goes to standard error.
        """
        if self.as_json:
            echo(json.dumps(as_jsonable(value)), err=self.stdout_is_taken, data=True)
        elif text is not None:
            self.say(text)

    def page(self, address: str) -> None:
        """Print the address of a page, with the token that opens it: the only secret that is printed as it is."""
        if self.as_json:
            echo(json.dumps({"address": address}), data=True)
        elif not self.quiet:
            echo(f"viewing at {address} (Ctrl-C ends it)", err=True, data=True)

    @contextmanager
    def progress(self, unit: str, total: int | None = None) -> Iterator[Advance]:
        """Show a progress bar on standard error, if that is a terminal; yields the function that advances it.

        The bar may be advanced from any thread.
        """
        if self.quiet or self.as_json or not sys.stderr.isatty():
            yield lambda _count: None
            return
        from webdataset.cache import progress_bar

        with progress_bar(total=total, unit=f" {unit}", file=sys.stderr, leave=False, dynamic_ncols=True) as bar:
            yield bar.update


def echo(text: object, *, nl: bool = True, err: bool = False, data: bool = False) -> None:
    """Print a text; control sequences of terminals are escaped, because names and fields are not trusted.

    Args:
        text: anything.
        nl: whether to end the line.
        err: print to standard error.
        data: the text is content of samples, or JSON; in messages, the secrets of addresses are hidden.
    """
    with printing(err):
        click.echo(printable(str(text) if data else redacted(str(text)), keep="\n\t"), nl=nl, err=err)


def echo_line(text: object, *, data: bool = True) -> None:
    """Print a text as one line: line breaks and tabs in it are escaped as well."""
    echo(printable(str(text)), data=data)


def echo_json(value: Any) -> None:
    """Print a value as one line of JSON."""
    echo(json.dumps(as_jsonable(value)), data=True)


def console() -> Console:
    """The console of the running verb."""
    found = click.get_current_context().obj
    return found if isinstance(found, Console) else Console()


def as_jsonable(value: Any) -> Any:
    """A value for JSON: dataclasses and named tuples as objects, bytes as text, addresses without secrets.

    >>> from pathlib import Path
    >>> as_jsonable({"a": (Path("x"), b"y")})
    {'a': ['x', 'y']}
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, Mapping):
        return {str(key): entry if key in _DATA else as_jsonable(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [as_jsonable(entry) for entry in value]
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value if isinstance(value, int | float | bool | None) else redacted(str(value))


# Names of entries of a report with content of samples.
_DATA = {"key", "__key__", "text"}
_SHARED: tuple[tuple[list[str], dict[str, Any]], ...] = (
    (["--json", "as_json"], {"is_flag": True, "help": "Print the result as JSON."}),
    (["-q", "--quiet"], {"is_flag": True, "help": "Show no progress and no report."}),
    (["-v", "--verbose"], {"count": True, "help": "Log more; -vv also shows tracebacks."}),
    (["--traceback"], {"is_flag": True, "help": "Show the traceback of an error."}),
)


class BriefErrors(click.Command):
    """A command whose errors are one sentence each, also if its help cannot be printed."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Parse the arguments; `--help` and `--version` are printed here."""
        path = f"{parent.command_path} {info_name}" if parent else str(info_name)
        with _sentences(path, Console()), printing():
            return super().make_context(info_name, args, parent, **extra)


class Group(BriefErrors, click.Group):
    """A group of verbs."""


class Verb(BriefErrors):
    """A command with the options that every verb has."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params += [click.Option(names, **options) for names, options in _SHARED]

    def invoke(self, ctx: click.Context) -> Any:
        """Run the verb."""
        shared = {field.name: ctx.params.pop(field.name) for field in dataclasses.fields(Console)[:4]}
        ctx.obj = console = Console(**shared)
        console.stdout_is_taken = ctx.params.get("output") == "-"
        with _logging(console), _sentences(ctx.command_path, console):
            result = super().invoke(ctx)
            with printing():
                sys.stdout.flush()
            return result


def verb(**attributes: Any) -> Callable[[Callable[..., Any]], click.Command]:
    """`click.command` for a verb of `wds`."""
    attributes.setdefault("context_settings", {"help_option_names": ["-h", "--help"]})
    return click.command(cls=Verb, **attributes)


@contextmanager
def _sentences(path: str, console: Console) -> Iterator[None]:
    """Errors inside the block as one sentence, after the path of the command, and an exit code."""
    try:
        yield
    except (click.exceptions.Exit, click.ClickException):
        raise
    except (KeyboardInterrupt, click.Abort):
        console.warn(f"{path}: interrupted; finished outputs are kept, nothing is half-written")
        raise click.exceptions.Exit(INTERRUPTED) from None
    except BrokenPipeError:
        _discard_unprinted()
        raise click.exceptions.Exit(BROKEN_PIPE) from None
    except Exception as error:
        if console.traceback or console.verbose > 1:
            raise
        _discard_unprinted()
        console.warn(f"{path}: {sentence(error)}")
        raise click.exceptions.Exit(1) from None


@contextmanager
def printing(err: bool = False) -> Iterator[None]:
    """Turn errors of writing to a standard stream into typed errors, except `BrokenPipeError`."""
    try:
        yield
    except OSError as error:
        if not err:
            _discard_unprinted()
        if isinstance(error, BrokenPipeError):
            raise
        from webdataset.stores import system_errors

        with system_errors("standard error" if err else "standard output"):
            raise


def sentence(error: BaseException) -> str:
    r"""An error as one line.

    >>> sentence(ValueError("expected 3\ngot 4")), sentence(KeyError("a"))
    ('expected 3 got 4', "KeyError: 'a'")
    """
    text = " ".join(str(error).split()) or type(error).__name__
    plain = isinstance(error, WebDatasetError) or type(error) in {ValueError, RuntimeError, OSError}
    return text if plain else f"{type(error).__name__}: {text}"


def _discard_unprinted() -> None:
    """Discard unwritten output after an error: the interpreter would fail again when it flushes it at its end."""
    try:
        sys.stdout.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


class _Lines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return printable(redacted(super().format(record)), keep="\n\t")


@contextmanager
def _logging(console: Console) -> Iterator[None]:
    """Log records and warnings as single lines on standard error, while a verb runs."""
    logger = logging.getLogger("webdataset")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Lines("%(levelname)s: %(message)s"))
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel((logging.WARNING, logging.INFO, logging.DEBUG)[min(console.verbose, 2)])
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: console.warn(f"warning: {message}")
        try:
            yield
        finally:
            logger.removeHandler(handler)
            logger.setLevel(level)
