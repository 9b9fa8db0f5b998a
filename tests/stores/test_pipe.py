"""`pipe:` children: reaped, checked, and ended quietly."""

import subprocess
import time

import psutil
import pytest

from webdataset import config, stores
from webdataset.errors import CommandFailed, SpecError, StoreTimeout, UnsafeContent
from webdataset.stores import Pipe


def test_reads_to_the_end_and_reaps():
    with stores.open_read("pipe:printf hello") as stream:
        assert stream.read() == b"hello"
        assert stream.read() == b""
        assert stream.status == 0


@pytest.mark.parametrize("read", [lambda s: s.read(), lambda s: s.read(3) + s.read(99), lambda s: s.readall()])
def test_D04_a_command_that_fails_at_its_end_is_an_error(read):
    for _ in range(20):
        with stores.open_read("pipe:printf hello; exit 3") as stream, pytest.raises(CommandFailed, match="status 3"):
            data = read(stream)
            assert data == b"hello"
            stream.read(1)


def test_D04_a_failure_stays_one():
    with Pipe("exit 3", shell=True) as pipe:
        for _ in range(2):
            with pytest.raises(CommandFailed, match="status 3"):
                pipe.read(1)


def test_D27_the_data_before_a_failure_is_delivered_first():
    with stores.open_read("pipe:printf hello; exit 3") as stream:
        assert stream.read(1000) == b"hello"
        with pytest.raises(CommandFailed) as caught:
            stream.read(1000)
    assert caught.value.where.offset == 5
    assert "exit 3" in caught.value.where.shard


def test_D27_it_is_a_proper_raw_stream():
    opened = stores.open_read("pipe:/usr/bin/printf 'a\\nb\\n'")  # writes once; the builtin of bash writes every line
    with opened as stream:
        buffer = bytearray(3)
        assert stream.readinto(buffer) == 3
        assert bytes(buffer) == b"a\nb"
        assert stream.readable()
        assert stream.tell() == 3
        assert stream.readline() == b"\n"
    assert stream.closed


def test_D32_early_close_is_quiet_for_a_shell_and_for_a_direct_child():
    for pipe in (Pipe("yes", shell=True), Pipe(["yes"]), Pipe("yes | cat", shell=True)):
        assert pipe.read(4) == b"y\ny\n"
        pipe.close()
        assert pipe.proc.returncode is not None


def test_early_close_ends_the_whole_command_line():
    with stores.open_read("pipe:sleep 1000 & echo go; wait") as stream:
        assert stream.read(3) == b"go\n"
        family = psutil.Process(stream.proc.pid).children(recursive=True)
        assert family
    _, alive = psutil.wait_procs(family, timeout=5)
    assert not alive


def test_dropping_the_last_reference_reaps():
    stream = stores.open_read("pipe:sleep 1000")
    process = psutil.Process(stream.proc.pid)
    del stream
    assert not process.is_running()


def test_a_child_that_lingers_after_its_output_is_a_timeout():
    with Pipe("printf x; exec >&-; sleep 1000", shell=True, timeout=0.2) as pipe:
        assert pipe.read(1) == b"x"
        began = time.monotonic()
        with pytest.raises(StoreTimeout, match="did not end"):
            pipe.read(1)
        assert time.monotonic() - began < 60


def test_writing(tmp_path):
    target = tmp_path / "out"
    with stores.open_write(f"pipe:cat > {target}") as stream:
        stream.write(b"hello")
    assert target.read_bytes() == b"hello"


def test_writing_to_a_command_that_fails():
    with pytest.raises(CommandFailed, match="status 4"), stores.open_write("pipe:cat > /dev/null; exit 4") as stream:
        stream.write(b"hello")


def test_writing_to_a_command_that_stops_reading():
    with pytest.raises(CommandFailed), stores.open_write("pipe:exit 0") as stream:
        for _ in range(100):
            stream.write(bytes(100_000))


def test_an_exception_while_writing_kills_the_child(tmp_path):
    target = tmp_path / "out"
    with (
        pytest.raises(ZeroDivisionError),
        stores.open_write(f"pipe:cat > {target}.part && mv {target}.part {target}") as s,
    ):
        s.write(b"half")
        raise ZeroDivisionError
    assert not target.exists()


def test_the_pipe_of_the_public_library():
    with Pipe(["false"], ignore_errors=True) as pipe:
        assert pipe.read() == b""
    with Pipe("exit 23", shell=True, ignore_status=[23]) as pipe:
        assert pipe.read() == b""
    assert pipe.status == 23
    assert isinstance(pipe.proc, subprocess.Popen)


def test_bad_input():
    with pytest.raises(SpecError, match="no command"):
        stores.open_read("pipe:")
    with pytest.raises(SpecError, match="mode"):
        Pipe("ls", mode="rw")
    with pytest.raises(CommandFailed, match="cannot be started"):
        Pipe(["/no/such/program"])


def test_a_pipe_out_of_downloaded_data_is_refused(tmp_path):
    with pytest.raises(UnsafeContent, match="not run"):
        stores.open_read(f"pipe:touch {tmp_path}/x", trusted=False)
    with pytest.raises(UnsafeContent, match="not run"):
        stores.open_read(f"PIPE:touch {tmp_path}/x", trusted=False)
    assert not list(tmp_path.iterdir())


def test_D17_secure_mode(monkeypatch, tmp_path):
    monkeypatch.setitem(vars(config.safety), "enforce", True)
    with pytest.raises(ValueError, match="gopen_pipe: unsafe_gopen is False, cannot open pipe URLs"):
        stores.open_read(f"pipe:touch {tmp_path}/x")
    with pytest.raises(ValueError, match="gopen_pipe: unsafe_gopen is False, cannot open pipe URLs"):
        stores.open_write(f"pipe:touch {tmp_path}/x")
    assert not list(tmp_path.iterdir())


def test_a_command_in_a_group_of_its_own_is_killed_whole():
    with Pipe("sleep 1000 & echo $!; wait", shell=True, process_group=0) as pipe:
        child = psutil.Process(int(pipe.readline()))
    psutil.wait_procs([child], timeout=60)
    assert not child.is_running()
