"""Run `wds` in this process, as a user would from a shell."""

from click.testing import CliRunner

from webdataset.cli._main import wds


def run(*arguments, input=None, code=0):
    """Run a verb; its result has `stdout`, `stderr` and `stdout_bytes`."""
    result = CliRunner().invoke(wds, [str(argument) for argument in arguments], input=input)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, (result.exit_code, result.stdout, result.stderr)
    return result
