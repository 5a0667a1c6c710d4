"""What a step keeps of its workspace, and what no command gets it to keep."""

from __future__ import annotations

import hashlib
import os
import threading
from pathlib import Path
from uuid import uuid4

import pytest

from threads import artifacts
from threads.artifacts import Haul
from threads.models import Artifact
from threads.runtime import gathering
from threads.runtime.gathering import Gather
from threads.runtime.globs import Globs

pytestmark = pytest.mark.django_db
SECRET = "not for anybody"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "secret").write_text(SECRET)
    folder = tmp_path / "run" / "work"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def take(house, work):
    def taken(*globs: str, subject: str = "s", origin=uuid4()) -> Haul:  # noqa: B008
        gather = Gather(Haul(house.pk, origin, subject, "build"), Globs(globs))
        gather.take(work)
        return gather.result()

    return taken


def kept(haul: Haul) -> dict[str, bytes]:
    folder = artifacts.folder_of(haul.origin)
    return {file.name: (folder / file.digest).read_bytes() for file in haul.kept}


def why(haul: Haul) -> dict[str, str]:
    return {file.name: file.why for file in haul.left_out}


def test_files_are_kept_whole_under_their_digest(take, work):
    (work / "dist").mkdir()
    (work / "dist" / "a.bin").write_bytes(b"\x00" * 3_000_000)
    (work / "empty").touch()

    haul = take("dist", "empty", "none/*")

    assert kept(haul) == {"dist/a.bin": b"\x00" * 3_000_000, "empty": b""}
    assert haul.kept[0].digest in {hashlib.sha256(b"\x00" * 3_000_000).hexdigest(), hashlib.sha256(b"").hexdigest()}  # fmt: skip
    assert why(haul) == {"none/*": "nothing there"}


def test_they_lie_where_only_the_house_reads(take, work):
    (work / "a").write_text("a")

    haul = take("a")

    folder = artifacts.folder_of(haul.origin)
    assert folder.stat().st_mode & 0o077 == 0
    assert [path.stat().st_mode & 0o777 for path in folder.iterdir()] == [0o600]


def test_no_link_is_followed_to_a_file_or_into_a_folder(take, work, tmp_path):
    (work / "file").symlink_to(tmp_path / "secret")
    (work / "dangling").symlink_to("/nowhere")
    (work / "folder").symlink_to(tmp_path)
    (work / "inside").symlink_to("real")
    (work / "real").write_text("real")

    haul = take("**")

    assert kept(haul) == {"real": b"real"}
    assert why(haul) == dict.fromkeys(
        ["file", "dangling", "folder", "inside"], "a link"
    )


def test_a_folder_named_by_the_pattern_that_is_a_link_is_not_entered(
    take, work, tmp_path
):
    (work / "out").symlink_to(tmp_path)

    haul = take("out/secret", "out")

    assert haul.kept == ()
    assert why(haul)["out"] == "a link"


def test_the_workspace_itself_may_be_no_link(house, work, tmp_path):
    work.rmdir()
    work.symlink_to(tmp_path)

    with pytest.raises(OSError):  # noqa: PT011  whichever the system says
        Gather(Haul(house.pk, uuid4(), "s", "b"), Globs(["secret"])).take(work)


def test_a_hard_link_to_a_file_elsewhere_is_not_kept(take, work, tmp_path):
    os.link(tmp_path / "secret", work / "mine")

    haul = take("mine")

    assert haul.kept == ()
    assert why(haul) == {"mine": "a hard link: it stands elsewhere as well"}


def test_pipes_sockets_and_devices_hold_nobody_up(take, work):
    os.mkfifo(work / "pipe")
    if os.geteuid() == 0:
        os.mknod(work / "device", 0o600 | 0o020000, os.makedev(1, 5))

    haul = take("*")

    assert haul.kept == ()
    assert set(why(haul).values()) == {"not a plain file"}


def test_a_file_swapped_for_a_link_or_a_pipe_after_the_look_is_not_kept(
    take, work, tmp_path, monkeypatch
):
    (work / "link").write_text("x")
    (work / "pipe").write_text("x")
    look = gathering.look

    def swap(name: str, folder: int) -> os.stat_result:
        looked = look(name, folder)
        (work / name).unlink()
        if name == "link":
            (work / name).symlink_to(tmp_path / "secret")
        else:
            os.mkfifo(work / name)
        return looked

    monkeypatch.setattr(gathering, "look", swap)

    haul = take("*")

    assert haul.kept == ()
    assert why(haul) == {"link": "it cannot be read", "pipe": "not a plain file"}


def test_a_folder_swapped_for_a_link_again_and_again_lets_nothing_out(
    take, work, tmp_path
):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "a").write_text(SECRET)
    (work / "d").mkdir()
    (work / "d" / "a").write_text("mine")
    over = threading.Event()

    def swap() -> None:
        while not over.is_set():
            (work / "d").rename(work / "kept")
            (work / "d").symlink_to(tmp_path / "out")
            (work / "d").unlink()
            (work / "kept").rename(work / "d")

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        found = [kept(take("d")) for _ in range(300)]
    finally:
        over.set()
        thread.join()

    assert all(set(files.values()) <= {b"mine"} for files in found)


def test_what_is_too_large_is_left_and_said(take, work, settings):
    settings.ARTIFACT_SIZE = 1000
    with (work / "sparse").open("wb") as file:
        file.truncate(10**12)
    (work / "small").write_text("x")

    haul = take("*")

    assert kept(haul) == {"small": b"x"}
    assert why(haul) == {"sparse": "larger than 1 kB"}


def test_a_file_that_grows_while_it_is_copied_ends_at_the_cap(
    take, work, settings, monkeypatch
):
    settings.ARTIFACT_SIZE = 1000
    (work / "log").write_text("x")
    look = gathering.look

    def grow(name: str, folder: int) -> os.stat_result:
        looked = look(name, folder)
        (work / name).write_text("x" * 5000)
        return looked

    monkeypatch.setattr(gathering, "look", grow)

    haul = take("log")

    assert why(haul) == {"log": "larger than 1 kB"}
    assert [*artifacts.folder_of(haul.origin).iterdir()] == []


def test_a_step_keeps_so_many_files_and_says_what_it_left(take, work, settings):
    settings.ARTIFACTS_COUNT = 3
    for number in range(9):
        (work / f"f{number}").write_text("x")

    haul = take("*")

    assert [file.name for file in haul.kept] == ["f0", "f1", "f2"]
    assert haul.words() == (
        "Kept f0 (1 bytes), f1 (1 bytes), f2 (1 bytes). Not kept: "
        "f3 (a step keeps 3 files), f4 (a step keeps 3 files), f5 (a step keeps 3 files), "
        "f6 (a step keeps 3 files), f7 (a step keeps 3 files), and 1 more files."
    )


def test_a_run_keeps_so_many_bytes(take, work, settings):
    settings.ARTIFACTS_SIZE = 10
    (work / "a").write_text("12345678")
    artifacts.record(take("a", subject="first"))
    (work / "b").write_text("123")

    haul = take("b", subject="second")

    assert why(haul) == {"b": "a run keeps 10 bytes"}
    assert [file.name for file in take("a", subject="first").kept] == ["a"]


def test_the_same_files_again_change_nothing(take, work):
    (work / "a").write_text("x")
    artifacts.record(take("a"))  # and the worker dies before anybody hears of it

    artifacts.record(take("a"))

    assert Artifact.objects.count() == 1
    assert len([*artifacts.folder_of(take("a").origin).iterdir()]) == 1


def test_a_later_try_leaves_its_file_in_the_place_of_the_earlier_one(take, work):
    (work / "a").write_text("one")
    artifacts.record(take("a"))
    (work / "a").write_text("two!")

    artifacts.record(take("a"))

    row = Artifact.objects.get()
    with artifacts.opened(row) as file:
        assert (row.size, file.read()) == (4, b"two!")


def test_names_that_would_act_are_shown_and_kept_harmlessly(take, work):
    (work / "a\nb\x1b[31m").write_text("x")
    (Path(os.fsdecode(os.fsencode(work) + b"/\xff"))).write_text("y")

    haul = take("*")

    assert sorted(kept(haul).values()) == [b"x", b"y"]
    assert all(file.name.isprintable() for file in haul.kept)


def test_a_place_that_cannot_be_written_fails_nothing(take, work, settings):
    Path(settings.ARTIFACTS).write_text("a file where a folder should be")
    (work / "a").write_text("x")

    haul = take("a")

    assert haul.kept == ()
    assert len(haul.left_out) == 1


def test_a_deep_workspace_ends_somewhere(take, work):
    deep = work
    for _ in range(100):
        deep = deep / "d"
        deep.mkdir()
    (deep / "a").write_text("x")

    assert take("**/a").kept == ()
