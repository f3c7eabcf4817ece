import os

from hsa_pyg.cli.folder import find_files


def test_a_folder_is_searched_without_leaving_it(tmp_path):
    folder, outside = tmp_path / "in", tmp_path / "outside.txt"
    (folder / "sub" / ".hidden").mkdir(parents=True)
    outside.write_text("secret")
    for name in ("b.txt", "a.txt", "sub/c.md", ".d.txt", "sub/.hidden/e.txt", "x.css"):
        (folder / name).write_text("Rain.")
    (folder / "inside.txt").symlink_to("a.txt")
    (folder / "out.txt").symlink_to(outside)
    (folder / "nowhere.txt").symlink_to("missing")
    (folder / "self.txt").symlink_to("self.txt")
    (folder / "sub" / "loop").symlink_to("..")
    os.mkfifo(folder / "pipe.txt")
    found = find_files(folder)
    names = [path.relative_to(folder).as_posix() for path, _ in found.files]
    assert names == ["a.txt", "b.txt", "inside.txt", "sub/c.md"]
    reasons = {path.name: reason for path, reason in found.failed}
    assert reasons == {
        "out.txt": "a link out of the folder, which is not followed",
        "nowhere.txt": "a link that leads nowhere",
        "self.txt": "a link that leads nowhere",
        "loop": "a link to a folder, which is not followed",
        "pipe.txt": "no regular file",
    }
    assert found.skipped == {".css": 1}
