"""Models that ``hsa-pyg train`` has trained."""

from __future__ import annotations

import json
import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from hsa_pyg.cli import SettingsError
from hsa_pyg.data import NestedSignal
from hsa_pyg.nn import HSATransformer


@dataclass(frozen=True)
class TrainedRun:
    """A model, and what its signals are made with.

    Args:
        name: Folder of the run.
        model: The model of the best epoch, in evaluation mode.
        classes: Names of its classes.
        tokenizer: The tokenizer of its data set; None if that has no texts.
        max_tokens: Tokens after which its documents were cut.
    """

    name: str
    model: HSATransformer
    classes: Sequence[str]
    tokenizer: Any
    max_tokens: int | None

    def check(self, signal: NestedSignal, name: str) -> None:
        """Raise unless the model can read a signal.

        Raises:
            SettingsError: If the signal has leaves, or parents, of types on which the
                model was not trained, or token ids out of its vocabulary.
        """
        known = self.model.encoder.leaf_types
        for kind, (start, stop) in signal.hierarchy.leaf_slices.items():
            if stop > start and kind not in known:
                raise SettingsError(
                    f"{name} has {stop - start} leaves of type {kind!r}, but the model "
                    f"of {self.name} was trained on leaves of type {', '.join(known)}"
                    + (": add --no-images." if kind == "patch" else ".")
                )
        if self.model.position is None:
            return
        domains = list(self.model.position.domains.keys())
        for kind, relation, parent in signal.edge_types:
            edges = signal[kind, relation, parent]
            if relation == "child_of" and edges.num_edges and parent not in domains:
                raise SettingsError(
                    f"{name} has children in nodes of type {parent!r}, but the model of"
                    f" {self.name} knows positions in {', '.join(domains)} alone: add "
                    "--format text to read a document as running text."
                )


def load_run(folder: Path, root: Path) -> TrainedRun:
    """Load the best model of a training run.

    Args:
        folder: Folder that ``hsa-pyg train`` has written.
        root: Folder under which processed data is kept.

    Raises:
        FileNotFoundError: If the folder holds no finished run.
        SettingsError: If its files are none of a training run, or the texts on which it
            was trained have changed or are not there.
    """
    from hsa_pyg.cli.sources import load_facts
    from hsa_pyg.cli.train import Settings, build_model, check_unchanged

    path, checkpoint = folder / "settings.json", folder / "best.ckpt"
    for needed in (path, checkpoint):
        if not needed.is_file():
            raise FileNotFoundError(
                f"{folder.as_posix()!r} is no folder of hsa-pyg train: it has no "
                f"{needed.name}."
            )
    try:
        settings = Settings(**json.loads(path.read_text(encoding="utf-8")))
    except (TypeError, ValueError) as error:
        raise SettingsError(
            f"{path.as_posix()!r} is not what this version of hsa-pyg train writes "
            f"({error}): train the model again."
        ) from error
    # All signals: the classes and the vocabulary are those of the whole data set.
    source = load_facts(settings.dataset, root, settings.max_tokens, settings.columns)
    check_unchanged(source, settings.digest, settings.dataset, folder)
    model = build_model(settings, source)
    try:
        saved = torch.load(checkpoint, map_location="cpu", weights_only=True)
        state = {
            name.removeprefix("model."): value
            for name, value in saved["state_dict"].items()
            if name.startswith("model.")
        }
        model.load_state_dict(state)
    except (pickle.UnpicklingError, RuntimeError, EOFError, KeyError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise SettingsError(
            f"{checkpoint.as_posix()!r} does not fit the settings beside it "
            f"({reason}): train the model again."
        ) from error
    return TrainedRun(
        folder.as_posix(),
        model.eval(),
        classes=source.classes,
        tokenizer=source.tokenizer,
        max_tokens=settings.max_tokens,
    )
