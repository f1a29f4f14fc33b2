import json
import zipfile
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from superarm.errors import FileError
from superarm.files import archive


def test_round_trip_keeps_values_types_and_order(tmp_path):
    path = tmp_path / "some.file"
    arrays = {
        "a": np.arange(6.0).reshape(2, 3),
        "b": np.asfortranarray(np.ones((2, 2))),
        "c": np.array(3),
    }
    archive.write_archive(path, "thing", {"x": 1 << 100, "y": None}, arrays)
    meta, back = archive.read_archive(path, "thing")
    assert meta == {"x": 1 << 100, "y": None}
    assert back.keys() == arrays.keys()
    for name in arrays:
        np.testing.assert_array_equal(back[name], arrays[name])
        assert back[name].dtype == arrays[name].dtype
    assert [p.name for p in tmp_path.iterdir()] == ["some.file"]


def test_a_failed_write_keeps_the_old_file(tmp_path):
    path = tmp_path / "kept.npz"
    archive.write_archive(path, "thing", {}, {"a": np.ones(2)})
    before = path.read_bytes()
    with pytest.raises(FileError, match="arrays of object cannot be saved"):
        archive.write_archive(path, "thing", {}, {"a": np.array([object()])})
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["kept.npz"]


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_truncated(tmp_path, share):
    path = tmp_path / "a.npz"
    archive.write_archive(path, "thing", {}, {"a": np.ones(1000)})
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(FileError, match=r"a\.npz is truncated, damaged or not a superarm file"):
        archive.read_archive(path, "thing")


def test_flipped_bytes_are_noticed(tmp_path):
    path = tmp_path / "a.npz"
    archive.write_archive(path, "thing", {}, {"a": np.ones(1000)})
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(FileError, match="damaged"):
        archive.read_archive(path, "thing")


def test_foreign_files(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, a=np.ones(2))
    with pytest.raises(FileError, match="no superarm header"):
        archive.read_archive(path, "thing")
    with path.open("wb") as file:
        np.save(file, np.ones(2))
    with pytest.raises(FileError, match="not a superarm file"):
        archive.read_archive(path, "thing")
    path.write_text("hello")
    with pytest.raises(FileError, match="not a superarm file"):
        archive.read_archive(path, "thing")
    for header in ("[1, 2]", "{", '{"version": "2"}', '{"version": null}'):
        np.savez(path, **{"superarm.json": np.array(header)})
        with pytest.raises(FileError, match="no superarm header"):
            archive.read_archive(path, "thing")
    np.savez(
        path,
        **{
            "superarm.json": np.array(
                '{"superarm": "thing", "version": 2, "members": {}, "meta": {}}'
            )
        },
    )
    with pytest.raises(FileError, match="upgrade superarm"):
        archive.read_archive(path, "thing")


def test_pickles_are_refused(tmp_path):
    path = tmp_path / "a.npz"
    header = json.dumps(
        {"superarm": "thing", "version": 1, "members": {"features": ["|O", [1]]}, "meta": {}}
    )
    np.savez(
        path,
        features=np.array([{"some": "object"}], dtype=object),
        **{"superarm.json": np.array(header)},
    )
    with pytest.raises(FileError, match="holds neither numbers nor text"):
        archive.read_archive(path, "thing")


def test_newer_version_and_other_kind(tmp_path, monkeypatch):
    path = tmp_path / "a.npz"
    archive.write_archive(path, "agent", {}, {})
    with pytest.raises(FileError, match="holds a superarm agent, a trace is needed"):
        archive.read_archive(path, "trace")
    monkeypatch.setattr(archive, "VERSION", 0)
    with pytest.raises(
        FileError, match=r"format version 1, this superarm reads up to 0: upgrade superarm"
    ):
        archive.read_archive(path, "agent")


def test_every_flipped_byte_is_either_harmless_or_a_file_error(tmp_path):
    path = tmp_path / "a.npz"
    archive.write_archive(path, "thing", {"x": 1}, {"a": np.arange(3.0)})
    content = path.read_bytes()
    for i in range(0, len(content), 3):
        path.write_bytes(content[:i] + bytes([content[i] ^ 0xFF]) + content[i + 1 :])
        try:
            meta, arrays = archive.read_archive(path, "thing")
        except FileError:
            continue
        assert meta == {"x": 1}
        assert arrays["a"].tolist() == [0.0, 1.0, 2.0]


def test_threads_writing_one_path_leave_a_whole_file(tmp_path):
    path = tmp_path / "a.npz"
    with ThreadPoolExecutor(4) as pool:
        list(
            pool.map(
                lambda i: archive.write_archive(path, "thing", {"x": i}, {"a": np.full(1000, i)}),
                range(60),
            )
        )
    meta, arrays = archive.read_archive(path, "thing")
    assert (arrays["a"] == meta["x"]).all()
    assert [p.name for p in tmp_path.iterdir()] == ["a.npz"]


def test_what_json_cannot_hold_is_refused(tmp_path):
    with pytest.raises(TypeError, match="only numbers and text can"):
        archive.write_archive(tmp_path / "a.npz", "thing", {"x": object()}, {})
    archive.write_archive(tmp_path / "a.npz", "thing", {"x": np.float64(0.5), "y": np.int64(3)}, {})
    assert archive.read_archive(tmp_path / "a.npz", "thing")[0] == {"x": 0.5, "y": 3}


def test_missing_file_and_folder(tmp_path):
    with pytest.raises(FileNotFoundError):
        archive.read_archive(tmp_path / "none.npz", "thing")
    with pytest.raises(IsADirectoryError):
        archive.read_archive(tmp_path, "thing")


def test_archives_as_of_large_files(tmp_path, monkeypatch):
    """With sizes and places in 64 bits, as beyond 4 GB; a directory that claims to be huge is not
    read."""
    path = tmp_path / "a.npz"
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 100)
    archive.write_archive(path, "thing", {}, {"a": np.ones(1000), "b": np.zeros(3)})
    monkeypatch.undo()
    content = bytearray(path.read_bytes())
    assert b"PK\6\6" in content
    assert archive.read_archive(path, "thing")[1]["a"].sum() == 1000
    at = content.rindex(b"PK\6\6")
    content[at + 40 : at + 48] = (2**15).to_bytes(8, "little")
    path.write_bytes(content)
    with pytest.raises(FileError, match="too many arrays"):
        archive.read_archive(path, "thing")


def test_the_header_comes_first_and_lists_the_arrays(tmp_path):
    path = tmp_path / "a.npz"
    archive.write_archive(path, "thing", {}, {"a": np.ones((2, 3)), "b": np.array("x")})
    with zipfile.ZipFile(path) as content:
        assert content.namelist() == ["superarm.json.npy", "a.npy", "b.npy"]
    header, arrays = archive.open_file(path)
    assert header["members"] == {"a": ["<f8", [2, 3]], "b": ["<U1", []]}
    assert arrays.keys() == header["members"].keys()
    assert np.load(path)["a"].shape == (2, 3)  # NumPy reads it too


@pytest.mark.parametrize("dtype", [object, np.complex128, np.bool_, "M8[s]", "V4", np.longdouble])
def test_only_numbers_and_text_are_saved(tmp_path, dtype):
    with pytest.raises(FileError, match="cannot be saved: only numbers and text can"):
        archive.write_archive(tmp_path / "a.npz", "thing", {}, {"a": np.zeros(2, dtype)})
    assert list(tmp_path.iterdir()) == []
