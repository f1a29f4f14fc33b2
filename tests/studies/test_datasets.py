import sys
from pathlib import Path

import numpy as np
import pytest

from superarm.errors import DataError
from superarm.studies import datasets
from superarm.studies.data.derive_adult import derive
from support import DATA, with_data


@pytest.fixture(autouse=True)
def fresh_caches():
    datasets.adult.cache_clear()
    datasets.lastfm.cache_clear()
    yield
    datasets.adult.cache_clear()
    datasets.lastfm.cache_clear()


def test_adult_has_the_known_counts():
    people = datasets.adult()
    assert len(people.age) == 32_561
    assert people.female.sum() == 10_771
    assert people.rich.sum() == 7_841
    assert (people.age.min(), people.age.max()) == (17, 90)
    assert (people.education.min(), people.education.max()) == (1, 16)


def test_derivation_counts_combinations():
    line = (
        "39, State-gov, 77516, Bachelors, 13, Single, Clerk, Other, White, {}, 2174, 0, {}, US, {}"
    )
    people = [("Male", 40, "<=50K"), ("Female", 41, ">50K"), ("Male", 9, "<=50K")]
    text = "\n".join([*(line.format(*person) for person in people), ""])
    assert derive(text).splitlines()[1:] == ["39,0,0,13,0,2", "39,1,1,13,1,1"]


@with_data
def test_the_table_is_derived_from_the_original():
    table = (Path(datasets.__file__).parent / "data" / "adult.csv").read_text()
    assert derive((DATA / "adult" / "adult.data").read_text()) == table


@with_data
def test_lastfm_has_the_known_counts():
    data = datasets.lastfm()
    assert data.plays.shape == (92_834, 3)
    assert data.tags.shape == (186_479, 3)
    assert len(np.unique(data.plays[:, 0])) == 1_892


def test_a_corrupt_table_is_refused(monkeypatch):
    monkeypatch.setattr(datasets, "ADULT_SHA256", "0" * 64)
    with pytest.raises(
        DataError, match=r"adult\.csv is not the file it should be: its SHA-256 is e019"
    ):
        datasets.adult()


def test_corrupt_files_are_refused(tmp_path, monkeypatch):
    folder = tmp_path / datasets.LASTFM_FOLDER
    folder.mkdir()
    for name in datasets.LASTFM_SHA256:
        (folder / name).write_text("changed")
    monkeypatch.setenv("SUPERARM_DATA", str(tmp_path))
    with pytest.raises(DataError, match=r"user_artists\.dat is not the file it should be"):
        datasets.lastfm()


def test_an_incomplete_folder_says_what_to_fetch(tmp_path, monkeypatch):
    (tmp_path / datasets.LASTFM_FOLDER).mkdir()
    monkeypatch.setenv("SUPERARM_DATA", str(tmp_path))
    with pytest.raises(DataError, match=r"user_artists\.dat is missing: fetch https"):
        datasets.lastfm()


def test_without_pooch_the_message_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setenv("SUPERARM_DATA", str(tmp_path))
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(DataError, match=r"pip install 'superarm\[data\]'"):
        datasets.lastfm()


def test_without_data_and_network_one_message_says_what_to_do(tmp_path, monkeypatch):
    import pooch

    def offline(*args, **kwargs):
        raise ConnectionError("no network")

    monkeypatch.setenv("SUPERARM_DATA", str(tmp_path))
    monkeypatch.setattr(pooch, "os_cache", lambda name: tmp_path / "cache")
    monkeypatch.setattr(pooch, "retrieve", offline)
    with pytest.raises(
        DataError,
        match=r"ConnectionError.*fetch https.*unpack it into .*hetrec2011.* SUPERARM_DATA",
    ):
        datasets.lastfm()


def test_the_download_is_unpacked_into_the_cache_and_checked(tmp_path, monkeypatch):
    import pooch

    def retrieve(url, known_hash, path, fname, processor):
        (path / datasets.LASTFM_FOLDER).mkdir(parents=True)
        for name in datasets.LASTFM_SHA256:
            (path / datasets.LASTFM_FOLDER / name).write_text("not the data")

    monkeypatch.delenv("SUPERARM_DATA", raising=False)
    monkeypatch.setattr(pooch, "os_cache", lambda name: tmp_path / "cache")
    monkeypatch.setattr(pooch, "retrieve", retrieve)
    for _ in range(2):  # downloaded, then found in the cache
        with pytest.raises(DataError, match="is not the file it should be"):
            datasets.lastfm()
