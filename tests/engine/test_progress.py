import sys

from superarm.engine.progress import create_bar, is_interactive, progress_callback


def test_a_terminal_gets_a_bar(in_a_terminal, capsys):
    with progress_callback(True, 3) as finished:
        finished(2)
        finished(1)
    shown = capsys.readouterr().err
    assert "100 %" in shown
    assert "so far: simulate" in shown
    with progress_callback("my text", 1) as finished:
        finished(1)
    assert "my text" in capsys.readouterr().err


def test_a_file_gets_none(capsys):
    assert not is_interactive()
    with progress_callback(True, 3) as finished:
        finished(3)
    assert capsys.readouterr().err == ""


def test_a_notebook_gets_one(monkeypatch, capsys):
    monkeypatch.setenv("TERM", "xterm-color")
    monkeypatch.setitem(sys.modules, "ipykernel", None)
    assert is_interactive()
    with create_bar() as line:
        line.add_task("text", total=2)
    shown = capsys.readouterr().err
    assert "0 %" in shown
    assert "text" in shown


def test_a_bar_may_disappear(in_a_terminal, capsys):
    with create_bar(transient=True) as line:
        assert list(line.track("abc", total=3, description="letters")) == ["a", "b", "c"]
    assert capsys.readouterr().err.rstrip("\x1b[?25h").endswith("\x1b[2K")


def test_none_if_it_is_not_asked_for(in_a_terminal, capsys):
    with progress_callback(False, 3) as finished:
        finished(3)
    assert capsys.readouterr().err == ""
