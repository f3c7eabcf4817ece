from pathlib import Path

import pytest

from hsa_pyg.converters.site import find_pages, scan_site


def write(folder, pages):
    for name, content in pages.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return folder


def links_of(site):
    return {
        (site.paths[source], site.paths[target]): count
        for (source, target), count in site.links.items()
    }


def test_links_are_resolved_as_browsers_do(tmp_path):
    folder = write(
        tmp_path,
        {
            "index.html": """
                <a href="a.html">1</a> <a href="./a.html#top">2</a>
                <a href="a.html?x=1">3</a> <a href="sub/../a.html">4</a>
                <a href=" sub/ ">5</a> <a href="/sub/deep/c%20d.html">6</a>
                <area href="a.html"> <a name="none">no link</a>
            """,
            "a.html": '<a href="sub\\index.html">1</a><a href="A.HTML">no such</a>',
            "sub/index.html": '<a href="../index.html">1</a><a href="..">2</a>',
            "sub/deep/c d.html": '<a href="../../a.html">1</a>',
        },
    )
    site = scan_site(folder)
    assert site.paths == ["a.html", "index.html", "sub/deep/c d.html", "sub/index.html"]
    assert links_of(site) == {
        ("index.html", "a.html"): 5,
        ("index.html", "sub/index.html"): 1,
        ("index.html", "sub/deep/c d.html"): 1,
        ("a.html", "sub/index.html"): 1,
        ("sub/index.html", "index.html"): 2,
        ("sub/deep/c d.html", "a.html"): 1,
    }
    assert site.dropped == {"links missing": 1}


def test_links_that_lead_nowhere_are_counted_by_what_they_are(tmp_path):
    folder = write(
        tmp_path / "site",
        {
            "a.html": """
                <a href="#part">1</a><a href="">2</a><a href="a.html#x">3</a>
                <a href="https://example.org/">4</a><a href="//example.org/a.html">5</a>
                <a href="mailto:a@example.org">6</a><a href="javascript:void(0)">7</a>
                <a href="../secret.html">8</a><a href="../../../../etc/passwd">9</a>
                <a href="b.css">10</a><a href="none.html">11</a>
                <a href="http://[broken">12</a>
            """,
            "b.css": "",
        },
    )
    write(tmp_path, {"secret.html": "secret"})
    site = scan_site(folder)
    assert site.links == {}
    assert site.dropped.pop("links missing") == 1
    assert site.dropped.pop("links within a page") == 3
    assert site.dropped.pop("links outside the folder") == 2
    assert site.dropped.pop("links to files that are no pages") == 1
    # The addresses of hosts, of other kinds, and the broken one.
    assert sum(site.dropped.values()) == 5


def test_no_page_outside_of_the_folder_is_read(tmp_path):
    write(tmp_path, {"secret.html": "<title>secret</title>"})
    folder = write(
        tmp_path / "site", {"a.html": '<a href="out.html">1</a><a href="in.html">2</a>'}
    )
    (folder / "out.html").symlink_to(tmp_path / "secret.html")
    (folder / "in.html").symlink_to(folder / "a.html")
    (folder / "gone.html").symlink_to(folder / "nothing.html")
    (folder / "up").symlink_to(tmp_path)
    site = scan_site(folder)
    # Another name of a page is no other page.
    assert site.paths == ["a.html"]
    assert site.dropped["pages outside the folder"] == 1
    assert site.dropped["pages that cannot be read"] == 1
    assert site.dropped["links outside the folder"] == 1
    assert site.dropped["links within a page"] == 1
    for start in ("../secret.html", "up/secret.html", "out.html"):
        with pytest.raises(ValueError, match="lies outside of"):
            scan_site(folder, start)


def test_links_lead_where_a_page_sends_its_readers(tmp_path):
    def sends_to(url):
        return f'<meta http-equiv="Refresh" content="0; URL={url}"><p>Moved.'

    folder = write(
        tmp_path,
        {
            "a.html": '<a href="old.html">1</a><a href="round1.html">2</a>',
            "old.html": sends_to("older.html"),
            "older.html": sends_to("'new.html'"),
            "new.html": "<p>Here.",
            "round1.html": sends_to("round2.html"),
            "round2.html": sends_to("round1.html"),
            "off.html": sends_to("https://example.org/"),
        },
    )
    site = scan_site(folder)
    links = links_of(site)
    assert links["a.html", "new.html"] == 1
    assert len(site.paths) == 7
    assert sum(links.values()) == 2


def test_a_base_moves_the_links(tmp_path):
    folder = write(
        tmp_path,
        {
            "a.html": '<base href="sub/"><a href="b.html">1</a><a href="#x">2</a>',
            "sub/b.html": "<p>b",
            "far.html": '<base href="https://example.org/"><a href="a.html">1</a>',
        },
    )
    site = scan_site(folder)
    assert links_of(site) == {("a.html", "sub/b.html"): 1}
    assert site.dropped["links on other hosts"] == 1


def test_a_start_may_send_its_readers_on(tmp_path):
    folder = write(
        tmp_path,
        {
            "index.html": '<meta http-equiv="refresh" content="0; url=en/a.html">',
            "en/a.html": '<a href="b.html">1</a>',
            "en/b.html": "<p>b",
        },
    )
    site = scan_site(folder, "index.html")
    assert site.paths == ["index.html", "en/a.html", "en/b.html"]
    assert links_of(site) == {("en/a.html", "en/b.html"): 1}


def test_links_in_drawings_are_links(tmp_path):
    svg = '<svg><a xlink:href="b.html"><text>b</text></a></svg>'
    folder = write(tmp_path, {"a.html": f"<p>See {svg}", "b.html": "<p>b"})
    assert links_of(scan_site(folder)) == {("a.html", "b.html"): 1}


def test_from_a_start_the_nearest_pages_come_first(tmp_path):
    folder = write(
        tmp_path,
        {
            "z.html": '<a href="m.html">1</a><a href="b.html">2</a>',
            "m.html": '<a href="c.html">1</a><a href="z.html">2</a>',
            "b.html": '<a href="d.html">1</a>',
            "c.html": "",
            "d.html": "",
            "island.html": '<a href="z.html">1</a>',
        },
    )
    paths = ["z.html", "m.html", "b.html", "c.html", "d.html"]
    assert scan_site(folder, "z.html").paths == paths
    few = scan_site(folder, "z.html", max_pages=3)
    assert few.paths == paths[:3]
    assert few.dropped == {"pages beyond max_pages": 2, "links to pages left out": 2}
    assert links_of(few) == {
        ("z.html", "m.html"): 1,
        ("z.html", "b.html"): 1,
        ("m.html", "z.html"): 1,
    }
    first = scan_site(folder, max_pages=2)
    assert first.paths == ["b.html", "c.html"]
    assert first.dropped["pages beyond max_pages"] == 4


def test_pages_are_found_whatever_their_names(tmp_path):
    names = ["ü.html", "b c.HTM", "x.xhtml", "a\nb.html", ".hidden.html", ".git/a.html"]
    write(tmp_path, dict.fromkeys([*names, "a.txt", "a.html.bak"], "<p>x"))
    paths, dropped = find_pages(tmp_path)
    assert paths == sorted(names[:4])
    assert dropped == {}


def test_wrong_folders_pages_and_numbers_are_told(tmp_path):
    with pytest.raises(FileNotFoundError, match="There is no folder 'nowhere'"):
        scan_site("nowhere")
    with pytest.raises(ValueError, match="has no page"):
        scan_site(tmp_path)
    write(tmp_path, {"a.html": ""})
    with pytest.raises(FileNotFoundError, match=r"There is no page 'b.html'"):
        scan_site(tmp_path, "b.html")
    with pytest.raises(ValueError, match="max_pages must be positive, but is 0"):
        scan_site(tmp_path, max_pages=0)
    assert isinstance(scan_site(Path(tmp_path)).root, Path)
