import sys

from superarm.simulation.progress import bar, is_watched, reporting


def test_a_terminal_gets_a_bar(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with reporting(True, 3) as finished:
        finished(2)
        finished(1)
    shown = capsys.readouterr().err
    assert "simulate" in shown
    assert "3/3" in shown
    with reporting("my text", 1) as finished:
        finished(1)
    assert "my text: 100%" in capsys.readouterr().err


def test_a_file_gets_none(capsys):
    assert not is_watched()
    with reporting(True, 3) as finished:
        finished(3)
    assert capsys.readouterr().err == ""


def test_a_notebook_gets_one(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "ipykernel", None)
    assert is_watched()
    bar(2, "text").close()
    assert "0/2" in capsys.readouterr().err


def test_none_if_it_is_not_asked_for(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with reporting(False, 3) as finished:
        finished(3)
    assert capsys.readouterr().err == ""
