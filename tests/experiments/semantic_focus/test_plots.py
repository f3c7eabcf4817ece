from hsa_pyg.experiments.semantic_focus.plots import plot_convergence


def test_more_settings_than_colours_are_drawn(tmp_path):
    def history(loss):
        return [{"train_loss": loss / (i + 1), "val_accuracy": 0.5} for i in range(3)]

    runs = {f"setting {i}": [history(1.0), history(2.0)] for i in range(7)}
    path = tmp_path / "new" / "curves.png"
    plot_convergence(runs, path)
    assert path.read_bytes().startswith(b"\x89PNG")
    same = tmp_path / "again.png"
    plot_convergence(runs, same)
    assert same.read_bytes() == path.read_bytes()
