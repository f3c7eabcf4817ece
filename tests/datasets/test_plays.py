import zipfile
from collections import Counter

import pytest

from hsa_pyg.datasets.plays import parse_play, read_plays

PLAY = """<?xml version="1.0"?>
<!-- <!DOCTYPE PLAY SYSTEM "play.dtd"> -->
<PLAY><TITLE>A play</TITLE><PERSONAE><PERSONA>ANN</PERSONA></PERSONAE>
<PROLOGUE><SPEECH><SPEAKER>CHORUS</SPEAKER><LINE>Listen.</LINE></SPEECH></PROLOGUE>
<ACT><TITLE>ACT I</TITLE>
<PROLOGUE><SPEECH><SPEAKER>CHORUS</SPEAKER><LINE>Now.</LINE></SPEECH></PROLOGUE>
<SCENE><TITLE>SCENE I</TITLE><STAGEDIR>Enter ANN</STAGEDIR>
<SPEECH><SPEAKER>ANN</SPEAKER>
<LINE>Who's
there?</LINE>
<LINE><STAGEDIR>To BOB</STAGEDIR> You <STAGEDIR>Aside</STAGEDIR>&amp; I.</LINE>
<LINE><STAGEDIR>Exit</STAGEDIR></LINE><SUBHEAD>SONG</SUBHEAD></SPEECH>
<SPEECH><SPEAKER>ANN</SPEAKER><SPEAKER>BOB</SPEAKER><LINE>Ay!</LINE></SPEECH>
<SPEECH><SPEAKER>BOB</SPEAKER><STAGEDIR>Weeps</STAGEDIR></SPEECH>
</SCENE><SCENE><TITLE>SCENE II</TITLE></SCENE></ACT></PLAY>"""


def parse(text):
    report = Counter()
    content = text if isinstance(text, bytes) else text.encode()
    return list(parse_play(content, "play", "play.xml", report)), +report


def test_speeches_have_their_places_and_spoken_lines():
    speeches, report = parse(PLAY)
    assert [s.place for s in speeches] == ["play/1/1", "play/2/1", *["play/2/2"] * 2]
    assert [s.number for s in speeches] == [1, 1, 1, 2]
    assert speeches[2].lines == ("Who's there?", "You & I.")
    assert speeches[2].speaker == "play/ANN"
    assert speeches[3].speakers == ("ANN", "BOB")
    assert speeches[3].speaker is None
    assert report == {
        "elements STAGEDIR": 5,
        "elements SUBHEAD": 1,
        "lines without spoken words": 1,
        "speeches without spoken words": 1,
        "scenes without a speech": 1,
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<PLAY>", "'play.xml' is no XML: no element found"),
        ("", "'play.xml' is no XML"),
        ("<html></html>", "outermost element is 'html', not 'PLAY'"),
        (b"\xff\xfe<\x00", "'play.xml' is not utf-8"),
        (
            '<!DOCTYPE PLAY [<!ENTITY a "aa"><!ENTITY b "&a;&a;">]><PLAY>&b;</PLAY>',
            "defines XML entities, which are not read",
        ),
        ("<PLAY>&unknown;</PLAY>", "is no XML: undefined entity"),
    ],
)
def test_broken_plays_are_named(text, message):
    with pytest.raises(ValueError, match=message):
        parse(text)


def test_deep_files_need_no_recursion():
    depth = 50_000
    speeches, report = parse("<PLAY>" + "<X>" * depth + "</X>" * depth + "</PLAY>")
    assert speeches == []
    assert report == {"elements X": 1}


def test_archives_are_read_in_the_order_of_names(tmp_path):
    path = tmp_path / "plays.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("plays/b.xml", PLAY)
        archive.writestr("plays/a.xml", PLAY)
        archive.writestr("__MACOSX/plays/a.xml", "rubbish")
        archive.writestr("plays/play.dtd", "rubbish")
    assert [s.play for s in read_plays(path)] == ["a"] * 4 + ["b"] * 4


def test_broken_archives_are_named(tmp_path, monkeypatch):
    path = tmp_path / "plays.zip"
    path.write_bytes(b"nothing")
    with pytest.raises(ValueError, match=r"plays.zip' is no zip archive"):
        read_plays(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("plays/a.xml", PLAY)
    content = path.read_bytes()
    path.write_bytes(content.replace(b"Listen", b"listen"))
    with pytest.raises(ValueError, match=r"plays.zip' is no zip archive, or a part"):
        read_plays(path)
    path.write_bytes(content)
    monkeypatch.setattr("hsa_pyg.datasets.plays._LARGEST_PLAY", 10)
    with pytest.raises(ValueError, match=r"'plays/a.xml' in .* which is no play"):
        read_plays(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("plays/a.txt", PLAY)
    with pytest.raises(ValueError, match="is not the archive of the plays"):
        read_plays(path)
