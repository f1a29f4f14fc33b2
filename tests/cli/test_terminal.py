import io

import pytest

from superarm.cli.terminal import speak_plainly


@pytest.mark.parametrize(
    ("encoding", "shown"),
    [
        ("utf-8", "σ = 3 ± 1, é, 好"),
        ("ascii", "sigma = 3 +/- 1, e, ?"),
        ("latin-1", "sigma = 3 ± 1, é, ?"),
        ("cp1252", "sigma = 3 ± 1, é, ?"),
    ],
)
def test_letters_that_an_encoding_lacks_become_others(encoding, shown):
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding)
    speak_plainly(stream)
    print("σ = 3 ± 1, é, 好", end="", file=stream, flush=True)
    assert raw.getvalue().decode(encoding) == shown


def test_names_of_files_that_are_no_text_are_shown_too():
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="utf-8")
    speak_plainly(stream)
    print("a\udcffb", end="", file=stream, flush=True)
    assert raw.getvalue() == b"a?b"


def test_other_streams_are_left_alone():
    stream = io.StringIO()
    speak_plainly(stream)
    print("±", end="", file=stream)
    assert stream.getvalue() == "±"
