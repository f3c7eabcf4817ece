"""Files that documents refer to: finding them inside a folder, never outside of it."""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import re
from collections import Counter, OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, unquote_to_bytes, urljoin

from hsa_pyg.converters.blocks import Picture
from hsa_pyg.converters.images import BadImageError, Patches, PictureReader
from hsa_pyg.converters.svg import looks_like_svg

INDEX_PAGES = ("index.html", "index.htm")
"""What a reference to a folder stands for."""

_SCHEME = re.compile(r"([a-z][a-z0-9+.\-]*):", re.IGNORECASE)
_ON_HOSTS = {"http", "https", "ftp", "ftps", "ws", "wss"}
_LARGEST_FILE = 1 << 28
_LARGEST_CACHE = 1 << 27


class ResourceError(ValueError):
    """A reference leads to no file that may be read.

    Args:
        url: The reference as it was written.
        reason: What is wrong with it, short enough to count by: one of a few fixed
            phrases such as ``"missing"``.
    """

    def __init__(self, url: str, reason: str) -> None:
        shown = url if len(url) <= 80 else f"{url[:77]}..."
        super().__init__(f"The reference {shown!r} leads to nothing to read: {reason}.")
        self.url = url
        self.reason = reason


class OutsideError(ResourceError):
    """A reference leads to a file outside of the folder that may be read."""

    def __init__(self, url: str) -> None:
        super().__init__(url, "outside the folder")


def locate(
    url: str, folder: str | os.PathLike[str], root: str | os.PathLike[str]
) -> Path:
    """Find the file that a reference in a document stands for.

    References are read as browsers read them: ``..`` and ``.`` are followed, ``\\``
    stands for ``/``, percent signs are decoded, fragments and queries lead to the same
    file. A path that starts with ``/`` starts at ``root``. A saved site may have files
    whose names hold a query (``page.php?id=3``): these come first. A folder stands for
    its index page.

    Args:
        url: The reference.
        folder: Where the document lies.
        root: Folder outside of which no file is read, also not through links of the
            file system.

    Returns:
        The resolved path of a regular file inside ``root``.

    Raises:
        OutsideError: If the file lies outside of ``root`` (a ResourceError).
        ResourceError: If there is no such file, or the reference is none to a file: it
            names another host, another scheme or the document itself (a ValueError).

    Example:
        >>> locate("https://example.org/a.png", ".", ".")
        Traceback (most recent call last):
        ...
        hsa_pyg.converters.resources.ResourceError: The reference \
'https://example.org/a.png' leads to nothing to read: on other hosts.
    """
    try:
        top = Path(root).resolve()
        start = Path(folder).resolve()
        for path in candidates(url, start, top):
            # By the names alone first: nothing outside is so much as looked at.
            if not path.is_relative_to(top):
                raise OutsideError(url)
            found = _regular_file(path)
            if found is None:
                continue
            if not found.is_relative_to(top):
                raise OutsideError(url)
            return found
    except ResourceError:
        raise
    # Names that the system refuses, such as too long ones, and loops of links.
    except (OSError, RuntimeError, ValueError):
        pass
    raise ResourceError(url, "missing")


def with_base(url: str, base: str) -> str:
    """Return a reference as it reads from the document itself.

    Args:
        url: The reference.
        base: The document's ``<base href>``, empty if it has none.

    Raises:
        ResourceError: If the reference is broken.

    Example:
        >>> with_base("b.html", "sub/"), with_base("b.html", "")
        ('sub/b.html', 'b.html')
    """
    if not base:
        return url
    try:
        return urljoin(base, url)
    except ValueError as error:
        raise ResourceError(url, "with broken addresses") from error


def _regular_file(path: Path) -> Path | None:
    found = path.resolve()
    if found.is_dir():
        indices = (found / name for name in INDEX_PAGES)
        found = next((index for index in indices if index.is_file()), found).resolve()
    return found if found.is_file() else None


def candidates(url: str, folder: Path, root: Path) -> Iterator[Path]:
    """Yield the paths that a reference may stand for, the likeliest first.

    Nothing is looked up, and the paths may lie outside of ``root``.

    Args:
        url: The reference.
        folder: Where the document lies.
        root: What ``/`` stands for.

    Raises:
        ResourceError: If the reference is none to a file.
    """
    reference = _tidied(url)
    start = folder
    scheme = _SCHEME.match(reference)
    if scheme is not None:
        name = scheme[1].lower()
        if name in _ON_HOSTS:
            raise ResourceError(url, "on other hosts")
        if len(name) == 1:  # a drive of Windows
            raise OutsideError(url)
        if name != "file":
            raise ResourceError(url, "with addresses of other kinds")
        reference = reference[scheme.end() :]
        root = Path(root.anchor)
        if reference.lower().startswith("//localhost/"):
            reference = reference[len("//localhost") :]
        elif reference.startswith("///"):
            reference = reference[len("//") :]
    if reference.startswith("//"):
        raise ResourceError(url, "on other hosts")
    reference = reference.partition("#")[0]
    path = reference.partition("?")[0]
    if not path:
        raise ResourceError(url, "within the same page")
    if path.startswith("/"):
        start = root
    for written in dict.fromkeys((unquote(reference), unquote(path), path)):
        if "\0" in written:
            raise ResourceError(url, "with broken addresses")
        name = written.replace("\\", "/").lstrip("/")
        yield Path(os.path.normpath(os.path.join(start, name)))


def _tidied(url: str) -> str:
    """Take off what browsers ignore, and turn backslashes of the path into slashes."""
    reference = re.sub(r"[\t\n\r]", "", url).strip("".join(map(chr, range(0x21))))
    path, mark, rest = re.split(r"([?#]|$)", reference, maxsplit=1)
    return path.replace("\\", "/") + mark + rest


class PictureResolver(Protocol):
    """Gives the picture that a reference in a document stands for.

    Args:
        src: The reference as the document has it.
        dropped: Told the reason for which a picture is left out.

    Returns:
        The picture, or None if it is left out.
    """

    def __call__(self, src: str, dropped: Counter[str]) -> Picture | None:
        """Resolve one reference."""
        ...


class PictureFinder:
    """Reads the pictures that documents refer to from the files beside them.

    Files are read once as long as they stay as they are, and equal pictures are decoded
    once: the last decoded ones are kept. Nothing is ever fetched from other hosts.

    Args:
        reader: Decodes the pictures.
        folder: Where the document lies. None for a document that is no file: only
            pictures within it (``data:``) can be read then.
        root: Folder outside of which no file is read; by default ``folder``.

    Example:
        >>> dropped = Counter()
        >>> find = PictureFinder(PictureReader(), None)
        >>> find("https://example.org/a.png", dropped), dict(dropped)
        (None, {'pictures on other hosts': 1})
    """

    def __init__(
        self,
        reader: PictureReader,
        folder: Path | None,
        root: str | os.PathLike[str] | None = None,
    ) -> None:
        self.reader = reader
        self.folder = folder
        self.root = folder if root is None else Path(root)
        self._cache = _PictureCache(reader)

    def beside(
        self, folder: Path | None, root: str | os.PathLike[str] | None = None
    ) -> PictureFinder:
        """Return a finder for documents in another folder that shares what was read."""
        finder = PictureFinder(self.reader, folder, self.root if root is None else root)
        finder._cache = self._cache
        return finder

    def __call__(self, src: str, dropped: Counter[str]) -> Picture | None:
        """Return the picture that ``src`` stands for; see :class:`PictureResolver`."""
        try:
            picture = self._picture(src)
        except ResourceError as error:
            dropped[f"pictures {error.reason}"] += 1
            return None
        if picture.patches.left_out:
            dropped["pictures in drawings"] += picture.patches.left_out
        return picture

    def _picture(self, src: str) -> Picture:
        if not src.strip():
            raise ResourceError(src, "without an address")
        if src.lstrip()[:5].lower() == "data:":
            return self._cache.decoded(_data(src.lstrip()), src[:40])
        return self._read_file(src)

    def _read_file(self, src: str) -> Picture:
        if self.folder is None or self.root is None:
            # What is wrong with the reference itself comes first.
            for _ in candidates(src, Path(), Path()):
                raise ResourceError(src, "in files, of a document that is none")
            raise ResourceError(src, "missing")
        return self._cache.read(locate(src, self.folder, self.root), src)


class _PictureCache:
    """Pictures that were read, up to a number of bytes of patches.

    A copy starts empty: copies go to other processes.
    """

    def __init__(self, reader: PictureReader) -> None:
        self._reader = reader
        # Path -> the state of the file when it was read and the digest of its bytes.
        self._files: dict[Path, tuple[tuple[int, int], str]] = {}
        # Digest -> the picture, or None if it cannot be decoded. The oldest come first.
        self._pictures: OrderedDict[str, Picture | None] = OrderedDict()
        self._bytes = 0

    def __reduce__(self) -> tuple[type[_PictureCache], tuple[PictureReader]]:
        return _PictureCache, (self._reader,)

    def read(self, path: Path, src: str) -> Picture:
        try:
            status = path.stat()
            state = (status.st_mtime_ns, status.st_size)
            known = self._files.get(path)
            if known is not None and known[0] == state and known[1] in self._pictures:
                return self._known(known[1], src)
            if status.st_size > _LARGEST_FILE:
                raise ResourceError(src, "that are too large")
            content = path.read_bytes()
        except OSError as error:
            raise ResourceError(src, "that cannot be read") from error
        self._files[path] = state, hashlib.sha256(content).hexdigest()
        return self.decoded(content, src)

    def decoded(self, content: bytes, src: str) -> Picture:
        key = hashlib.sha256(content).hexdigest()
        if key not in self._pictures:
            try:
                patches = self._reader.read(content, src)
            except BadImageError:
                self._pictures[key] = None
            else:
                self._pictures[key] = Picture(key, patches)
                self._bytes += _num_bytes(patches)
        return self._known(key, src)

    def _known(self, key: str, src: str) -> Picture:
        picture = self._pictures[key]
        self._pictures.move_to_end(key)
        while self._bytes > _LARGEST_CACHE and len(self._pictures) > 1:
            _, oldest = self._pictures.popitem(last=False)
            self._bytes -= 0 if oldest is None else _num_bytes(oldest.patches)
        if picture is None:
            raise ResourceError(src, "that cannot be decoded")
        return picture


def _num_bytes(patches: Patches) -> int:
    return patches.x.numel() * patches.x.element_size()


def embeds_drawing(src: str) -> bool:
    """Whether a ``data:`` reference holds a drawing (SVG).

    Example:
        >>> embeds_drawing("data:,%3Csvg/%3E"), embeds_drawing("data:,x")
        (True, False)
    """
    try:
        return looks_like_svg(_data(src.lstrip()))
    except ResourceError:
        return False


def _data(src: str) -> bytes:
    """Decode a ``data:`` reference."""
    head, comma, body = src.partition(",")
    content = unquote_to_bytes(body.partition("#")[0])
    if not comma:
        raise ResourceError(src, "with broken addresses")
    if not re.search(r";\s*base64\s*$", head, re.IGNORECASE):
        return content
    letters = re.sub(rb"[\s=]", b"", content)
    try:
        return base64.b64decode(letters + b"=" * (-len(letters) % 4))
    except (binascii.Error, ValueError) as error:
        raise ResourceError(src, "with broken addresses") from error
