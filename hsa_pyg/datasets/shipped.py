"""Where the raw data lie that come with the package."""

from __future__ import annotations

from pathlib import Path


def shipped_file(folder: str, name: str, remedy: str = "") -> Path:
    """Return the path of a raw file that comes with the package.

    Wheels carry folders of the repository's ``datasets/`` as package data (see
    pyproject.toml); a checkout, also an editable install, has the folders themselves.

    Args:
        folder: Folder below ``datasets/``, such as ``"movie_reviews"``.
        name: Name of the file.
        remedy: What to do if it is not there, for the error: a sentence.

    Raises:
        FileNotFoundError: If it is in neither place.

    Example:
        >>> shipped_file("movie_reviews", "movie_reviews.zip").name
        'movie_reviews.zip'
    """
    here = Path(__file__).resolve()
    places = (
        here.parent / "_shipped" / folder / name,
        here.parents[2] / "datasets" / folder / name,
    )
    for place in places:
        if place.is_file():
            return place
    raise FileNotFoundError(
        f"{name!r} is neither at "
        + " nor at ".join(repr(place.as_posix()) for place in places)
        + f". {remedy}".rstrip()
    )
