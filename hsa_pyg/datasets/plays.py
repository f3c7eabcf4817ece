"""Reading plays in XML: play > act > scene > speech > line."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
import zipfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from hsa_pyg.converters.formats import decode
from hsa_pyg.datasets.raw_files import reading_zip

_LARGEST_PLAY = 64 * 2**20
_ABOUT_THE_PLAY = {"TITLE", "FM", "PERSONAE", "SCNDESCR", "PLAYSUBT"}
_SCENES = {"SCENE", "PROLOGUE", "EPILOGUE"}
_ACTS = {"ACT", "INDUCT", "PROLOGUE", "EPILOGUE"}


@dataclass(frozen=True)
class Speech:
    """What one speaker says at a stretch.

    Args:
        play: Name of the play, ``"hamlet"``.
        act: Number of the act, from 1.
        scene: Number of the scene in the act, from 1; prologues and epilogues count.
        number: Number of the speech in the scene, from 1.
        speakers: Those who speak, mostly one.
        lines: The lines that are spoken, without stage directions.
    """

    play: str
    act: int
    scene: int
    number: int
    speakers: tuple[str, ...]
    lines: tuple[str, ...]

    @property
    def place(self) -> str:
        """The scene, as ``"hamlet/3/1"``."""
        return f"{self.play}/{self.act}/{self.scene}"

    @property
    def speaker(self) -> str | None:
        """The speaker, as ``"hamlet/OPHELIA"``; None if there are several or none."""
        return f"{self.play}/{self.speakers[0]}" if len(self.speakers) == 1 else None


def read_plays(raw_zip: Path, report: Counter[str] | None = None) -> list[Speech]:
    """Read all speeches of an archive of plays, in the order of plays and speeches.

    Args:
        raw_zip: A zip archive with XML files in Jon Bosak's markup.
        report: Told what is left out, and how often.

    Raises:
        ValueError: If the archive or a play in it is broken, or it has none.
    """
    report = Counter() if report is None else report
    speeches: list[Speech] = []
    with reading_zip(raw_zip) as archive:
        members = [info for info in archive.infolist() if _is_play(info)]
        for info in sorted(members, key=lambda info: info.filename):
            if info.file_size > _LARGEST_PLAY:
                raise ValueError(
                    f"{info.filename!r} in {raw_zip.as_posix()!r} has "
                    f"{info.file_size} bytes, which is no play."
                )
            name = PurePosixPath(info.filename).stem
            content = archive.read(info)
            speeches += parse_play(content, name, info.filename, report)
    if not speeches:
        raise ValueError(
            f"{raw_zip.as_posix()!r} is not the archive of the plays: it has no speech "
            "in a file *.xml."
        )
    return speeches


def parse_play(
    content: bytes, name: str, where: str, report: Counter[str]
) -> Iterator[Speech]:
    """Yield the speeches of a play.

    Args:
        content: The XML file.
        name: Name of the play.
        where: What to call the file in errors.
        report: Told what is left out.

    Raises:
        ValueError: If it is no play in XML, or defines entities (which could grow
            without bounds).
    """
    text = decode(content, where)
    if "<!ENTITY" in text:
        raise ValueError(
            f"{where!r} defines XML entities, which are not read: they can expand to "
            "any size. Write them out."
        )
    try:
        play = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise ValueError(f"{where!r} is no XML: {error}.") from error
    if play.tag != "PLAY":
        raise ValueError(
            f"{where!r} is no play: its outermost element is {play.tag!r}, not 'PLAY'."
        )
    act_number = 0
    for act in play:
        if act.tag not in _ACTS:
            _leave_out(act, report)
            continue
        act_number += 1
        # Prologues outside of the acts are an act of one scene.
        inside = any(child.tag in _SCENES for child in act)
        scenes = [child for child in act if child.tag in _SCENES] if inside else [act]
        for child in act if inside else ():
            if child.tag not in _SCENES:
                _leave_out(child, report)
        for scene_number, scene in enumerate(scenes, 1):
            yield from _speeches(scene, (name, act_number, scene_number), report)


def _speeches(
    scene: ElementTree.Element, place: tuple[str, int, int], report: Counter[str]
) -> Iterator[Speech]:
    number = 0
    for element in scene:
        if element.tag != "SPEECH":
            _leave_out(element, report)
            continue
        speakers, lines = [], []
        for part in element:
            if part.tag == "SPEAKER":
                speakers.append(_words(part.text))
            elif part.tag == "LINE":
                lines.append(_spoken(part, report))
            else:
                _leave_out(part, report)
        kept = tuple(filter(None, lines))
        report["lines without spoken words"] += len(lines) - len(kept)
        if kept:
            number += 1
            yield Speech(*place, number, tuple(filter(None, speakers)), kept)
        else:
            report["speeches without spoken words"] += 1
    report["scenes without a speech"] += number == 0


def _spoken(line: ElementTree.Element, report: Counter[str]) -> str:
    """The text of a line, without the directions in it (they may name the speaker)."""
    pieces = [line.text or ""]
    for child in line:
        _leave_out(child, report)
        pieces.append(child.tail or "")
    return _words(" ".join(pieces))


def _words(text: str | None) -> str:
    return " ".join((text or "").split())


def _leave_out(element: ElementTree.Element, report: Counter[str]) -> None:
    if element.tag not in _ABOUT_THE_PLAY:
        report[f"elements {element.tag}"] += 1


def _is_play(info: zipfile.ZipInfo) -> bool:
    path = PurePosixPath(info.filename)
    return path.suffix == ".xml" and not info.is_dir() and "__MACOSX" not in path.parts
