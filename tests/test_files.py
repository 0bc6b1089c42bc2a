"""Saving: whole or not at all, through links and pipes, with the permissions that were there, and nothing left behind."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from capture_cp import CaptureError
from capture_cp.base.files import check_writable, write_json, written_whole

WRITING = """
import sys, time
from capture_cp.base.files import written_whole
with written_whole(sys.argv[1]) as temporary:
    temporary.write_bytes(b"half")
    print("writing", flush=True)
    time.sleep(600)
"""


def save(path, content=b"new"):
    with written_whole(path) as temporary:
        temporary.write_bytes(content)


def writing(path):
    """A process that is in the middle of writing to `path`."""
    process = subprocess.Popen([sys.executable, "-c", WRITING, str(path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "writing\n"
    return process


def names(folder):
    return sorted(entry.name for entry in folder.iterdir())


# -- what is replaced -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664, 0o755])
def test_a_file_keeps_its_permissions_also_while_it_is_written(tmp_path, mode):
    file = tmp_path / "rows.json"
    file.write_text("old")
    file.chmod(mode)
    with written_whole(file) as temporary:
        assert stat.S_IMODE(temporary.stat().st_mode) & ~mode == 0
        temporary.write_bytes(b"new")
    assert file.read_bytes() == b"new"
    assert stat.S_IMODE(file.stat().st_mode) == mode


def test_a_new_file_has_ordinary_permissions(tmp_path):
    mask = os.umask(0)
    os.umask(mask)
    save(tmp_path / "rows.json")
    assert (tmp_path / "rows.json").stat().st_mode & 0o777 == 0o666 & ~mask


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only the superuser gives files away")
def test_a_file_keeps_its_owner(tmp_path):
    file = tmp_path / "rows.json"
    file.write_text("old")
    os.chown(file, 1234, 5678)
    save(file)
    assert (file.stat().st_uid, file.stat().st_gid) == (1234, 5678)


def test_a_link_stays_and_its_file_is_replaced(tmp_path):
    (tmp_path / "data").mkdir()
    file, link, second = tmp_path / "data" / "rows.json", tmp_path / "latest.json", tmp_path / "second.json"
    file.write_text("old")
    link.symlink_to(Path("data") / "rows.json")
    second.symlink_to(link)
    save(second)
    assert second.is_symlink()
    assert link.is_symlink()
    assert file.read_bytes() == b"new"
    assert names(tmp_path / "data") == ["rows.json"]
    file.unlink()
    check_writable(link)
    save(link)  # to nothing yet
    assert file.read_bytes() == b"new"
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(CaptureError, match="its links lead in a circle"):
        save(tmp_path / "a")


def test_a_pipe_is_written_into(tmp_path):
    pipe, read = tmp_path / "pipe.json", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    check_writable(pipe)
    write_json(pipe, {"a": 1})
    reader.join()
    assert read == ['{\n "a": 1\n}\n']
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert names(tmp_path) == ["pipe.json"]


@pytest.fixture
def device(tmp_path):
    """Makes a device of the kernel's memory class in a folder of its own: a mistake must not cost the machine its own."""

    def made(minor):
        try:
            os.mknod(tmp_path / "device", 0o666 | stat.S_IFCHR, os.makedev(1, minor))
            (tmp_path / "device").open("rb").close()
        except OSError:
            pytest.skip("only the superuser makes devices")
        return tmp_path / "device"

    return made


def test_devices_are_written_into(device):
    null = device(3)
    check_writable(null)
    save(null)
    null.unlink()
    with pytest.raises(CaptureError, match=r"cannot write .*device: No space left on device"):
        save(device(7))
    assert stat.S_ISCHR(null.stat().st_mode)


def test_a_place_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "taken").mkdir()
    (tmp_path / "file").write_text("not a folder")
    for place in (tmp_path / "missing" / "a", tmp_path / "file" / "a"):
        with pytest.raises(CaptureError, match=r"cannot write .*; choose a folder that exists and is writable"):
            save(place)
    with pytest.raises(CaptureError, match=r"cannot write .*: it is a folder"):
        save(tmp_path / "taken")
    assert names(tmp_path) == ["file", "taken"]


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="no /proc")
@pytest.mark.parametrize("to_file", [False, True])
def test_standard_output_may_be_the_target(tmp_path, to_file):
    link, out = tmp_path / "stdout", tmp_path / "out"
    link.symlink_to("/proc/self/fd/1")  # as /dev/stdout is one
    save_one = "from capture_cp.base.files import write_json\nwrite_json(sys.argv[1], 1)"
    program = f"import sys\nprint('before', flush=True)\n{save_one}\nprint('after')"
    with out.open("ab") as file:
        command = [sys.executable, "-c", program, link]
        printed = subprocess.run(command, stdout=file if to_file else subprocess.PIPE, check=True, text=True).stdout
    if to_file:
        assert "after" in out.read_text()  # the file that the shell has open is still the one of that name
    else:
        assert printed == "before\n1\nafter\n"
    assert link.is_symlink()


# -- what is left behind ---------------------------------------------------------------------------------------------------


def test_a_save_removes_what_a_killed_one_left_long_ago(tmp_path):
    file = tmp_path / "rows.json"
    for target in (file, file, tmp_path / "rows.json.old"):
        process = writing(target)
        process.kill()
        process.communicate()
    save(file)
    left = names(tmp_path)
    assert len(left) == 4  # nothing is deleted that may still be written
    for name in left:
        os.utime(tmp_path / name, (0, 0))
    save(file)
    assert file.read_bytes() == b"new"
    (other,) = (name for name in names(tmp_path) if name != file.name)
    assert other.startswith(".rows.json.old.")  # of another target: not touched


def test_without_owners_or_modes_files_are_written(tmp_path, monkeypatch):
    def unknown(*given):
        raise OSError(95, "Operation not supported")

    for name in ("fchown", "fchmod"):
        monkeypatch.setattr(os, name, unknown)
    file = tmp_path / ("x" * 250 + ".json")  # and the name may be as long as the disk allows
    for content in (b"old", b"new"):
        save(file, content)
    assert file.read_bytes() == b"new"
    assert names(tmp_path) == [file.name]
