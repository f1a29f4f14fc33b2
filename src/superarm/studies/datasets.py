"""The paper's data: embedded, from a folder, from the cache, or downloaded. Always checked by
SHA-256.

Adult ships with superarm as a table of counts (CC BY 4.0; see
`superarm.studies.data.derive_adult`). Last.fm may not be passed on, so it comes from
`$SUPERARM_DATA`, from the user's cache, or from its original source.
"""

import functools
import hashlib
import os
from importlib import resources
from pathlib import Path
from typing import NamedTuple

import numpy as np

from superarm.arrays import Array
from superarm.errors import DataError

ADULT_SHA256 = "e01938899f96c2639a2050b2a6dab3b7c076547e5effca92d6dae59914a1832d"
LASTFM_SHA256 = {
    "user_artists.dat": "001400dc3c7d2667fca6e4ea6dc6acc31a9dd28ad5cd0f74cea988c019934d3b",
    "user_taggedartists.dat": "d31fe938fcfeed6f0059f37a36b156f63674d073fc2553e5cc9dc1595e365bc7",
}
LASTFM_FOLDER = "hetrec2011-lastfm-2k"
LASTFM_URL = "https://files.grouplens.org/datasets/hetrec2011/hetrec2011-lastfm-2k.zip"
_HOW_TO_GET = (
    f"fetch {LASTFM_URL}, unpack it into a folder {LASTFM_FOLDER}, "
    "and let SUPERARM_DATA name the folder that one is in"
)


class People(NamedTuple):
    """Adult's 32,561 people, one entry per person, sorted."""

    age: Array
    female: Array  # 0 or 1
    long_hours: Array  # 0 or 1: more than 40 a week
    education: Array  # education-num, 1..16
    rich: Array  # 0 or 1: more than 50K a year


class Listening(NamedTuple):
    """Last.fm: who listened to whom how often, and who tagged whom with what."""

    plays: Array  # (92,834, 3): user, artist, count
    tags: Array  # (186,479, 3): user, artist, tag


def _numbers(content: bytes, sha256: str, name: str, delimiter: str | None = None) -> Array:
    """The whole numbers below the header of a table, once its SHA-256 is verified."""
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise DataError(
            f"{name} is not the file it should be: "
            f"its SHA-256 is {found}, expected {sha256}; remove it"
        )
    lines = content.decode().splitlines()
    return np.loadtxt(lines[1:], np.int64, delimiter=delimiter)


@functools.cache
def adult() -> People:
    """The people of adult.data, from the table that ships with superarm.

    >>> people = adult()
    >>> len(people.age), int(people.female.sum()), int(people.rich.sum())
    (32561, 10771, 7841)
    """
    content = resources.files("superarm.studies.data").joinpath("adult.csv").read_bytes()
    table = _numbers(content, ADULT_SHA256, "adult.csv", delimiter=",")
    return People(*np.repeat(table[:, :5], table[:, 5], axis=0).T)


@functools.cache
def lastfm() -> Listening:
    """Last.fm's listening counts and tags."""
    folder = _lastfm_folder()
    tables = []
    for name, sha256 in LASTFM_SHA256.items():
        path = folder / name
        try:
            content = path.read_bytes()
        except FileNotFoundError as error:
            raise DataError(f"{path} is missing: {_HOW_TO_GET}") from error
        tables.append(_numbers(content, sha256, str(path)))
    return Listening(tables[0], tables[1][:, :3])


def _lastfm_folder() -> Path:
    """Where the files lie: in $SUPERARM_DATA, or in the cache, after a download if need be."""
    given = os.environ.get("SUPERARM_DATA")
    if given and (Path(given) / LASTFM_FOLDER).is_dir():
        return Path(given) / LASTFM_FOLDER
    try:
        import pooch

        pooch.get_logger().setLevel(
            "WARNING"
        )  # it would tell of every try where there is no network
        cache = Path(pooch.os_cache("superarm"))
        unpacked = cache / LASTFM_FOLDER
        if not unpacked.is_dir():
            pooch.retrieve(
                LASTFM_URL,
                known_hash=None,
                path=cache,
                fname=f"{LASTFM_FOLDER}.zip",
                processor=pooch.Unzip(extract_dir=LASTFM_FOLDER),
            )
        # the archive may hold a folder
        return next(unpacked.rglob("user_artists.dat")).parent
    except ImportError as error:
        raise DataError(
            f"to download Last.fm, pip install 'superarm[data]'; or {_HOW_TO_GET}"
        ) from error
    except Exception as error:
        raise DataError(
            f"Last.fm could not be downloaded ({type(error).__name__}): {_HOW_TO_GET}"
        ) from error
