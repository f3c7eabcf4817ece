"""Molecules: what passes into the brain, and what dissolves in water."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch_geometric.utils.smiles import e_map

from hsa_pyg.cli import SettingsError
from hsa_pyg.converters import ATOM_SIZES
from hsa_pyg.data import NestedSignal, Schema
from hsa_pyg.datasets import MoleculeNetTrees
from hsa_pyg.datasets.raw_files import copy_whole
from hsa_pyg.experiments.learning.settings import GRAPH_MODELS, LearningSettings
from hsa_pyg.experiments.learning.task import Task
from hsa_pyg.experiments.models import GlobalAttentionGNN, make_model

#: Number of ids in each of the three columns of a bond's ``edge_attr``.
BOND_SIZES = tuple(len(values) for values in e_map.values())
_SHARES = (0.8, 0.1)


def bbbp(settings: LearningSettings, data: Path, cache: Path) -> Task:
    """2,039 molecules: whether they pass the blood-brain barrier."""
    return _task("bbbp", "BBBP.csv", data, cache)


def esol(settings: LearningSettings, data: Path, cache: Path) -> Task:
    """1,128 molecules: how well they dissolve in water, log mol/l."""
    return _task("esol", "delaney-processed.csv", data, cache)


def _task(name: str, file: str, data: Path, cache: Path) -> Task:
    raw = cache / "molecules" / name / "raw" / file
    source = data / "molecules" / name / "raw" / file
    if not raw.exists():
        if not source.is_file():
            raise SettingsError(
                f"There is no file {source}: put {file} of MoleculeNet there "
                "(https://moleculenet.org)."
            )
        copy_whole(source, raw)
    dataset = MoleculeNetTrees(cache / "molecules", name, log=False)
    signals: list[NestedSignal] = list(dataset)
    regression = name == "esol"
    for signal in signals:
        signal.y = signal.y.view(-1) if regression else signal.y.view(-1).long()
    places = scaffold_split([signal.smiles for signal in signals])
    train, val, test = ([signals[place] for place in part] for part in places)
    if not regression:
        for part, chosen in (("training", train), ("validation", val), ("test", test)):
            _check_classes([int(one.y) for one in chosen], part, source)
    return Task(
        train,
        val,
        test,
        schema=Schema.of(signals[0]),
        vocab_sizes={"atom": ATOM_SIZES},
        outputs=1 if regression else 2,
        kind="regression" if regression else "classification",
        model=molecule_model,
        score="rmse" if regression else "roc_auc",
        facts={
            "train": len(train),
            "val": len(val),
            "test": len(test),
            "molecules that rdkit cannot read": len(dataset.refused),
        },
    )


def _check_classes(labels: Sequence[int], part: str, source: Path) -> None:
    if len(set(labels)) < 2:
        raise SettingsError(
            f"Of the {len(labels)} {part} molecules of {source} all are of one class, "
            "so there is no area under a ROC curve: is the file whole, and in its own "
            "order?"
        )


def molecule_model(
    name: str,
    schema: Schema,
    out_channels: int,
    channels: int = 64,
    **kwargs: Any,
) -> torch.nn.Module:
    """A model of molecules: those of ``GRAPH_MODELS`` read the bonds, too.

    Args:
        name: Such as ``"gine-hsa"``, message passing and attention, or one of
            :data:`~hsa_pyg.experiments.models.MODELS`.
        schema: Schema of the molecules.
        out_channels: Size of the output.
        channels: Size of the vectors.
        **kwargs: As for :func:`~hsa_pyg.experiments.models.make_model`.
    """
    if name not in GRAPH_MODELS:
        return make_model(name, schema, out_channels, channels, **kwargs)
    local, _, attention = name.partition("-")
    kwargs |= {"edge_sizes": BOND_SIZES, "local": local, "attention": attention}
    return GlobalAttentionGNN.from_schema(schema, out_channels, channels, **kwargs)


def scaffold_split(smiles: Sequence[str]) -> tuple[list[int], list[int], list[int]]:
    """Split molecules such that none shares its scaffold with one of another part.

    As MoleculeNet has it (https://arxiv.org/abs/1703.00564): molecules with one
    scaffold of Bemis and Murcko are a group. Largest groups first, and of equal ones
    the one whose first molecule comes last, they go to the training part while it stays
    within 80 %, then to the validation part while both stay within 90 %, else to the
    test. The order of equal ones matters: most groups are single molecules, and in the
    second half of BBBP's file all pass the barrier.

    Args:
        smiles: The molecules.

    Returns:
        Places of the training, validation and test molecules, ascending.

    Example:
        >>> scaffold_split(["Cc1ccccc1"] * 8 + ["C1CC1", "CCO"])
        ([0, 1, 2, 3, 4, 5, 6, 7], [9], [8])
    """
    try:
        from rdkit import rdBase
        from rdkit.Chem.Scaffolds.MurckoScaffold import MurckoScaffoldSmiles
    except ImportError as error:
        raise ImportError(
            'Molecules need rdkit: pip install "hsa-pyg[chem]".'
        ) from error
    groups: dict[str, list[int]] = defaultdict(list)
    # Notes on lone hydrogens are no news, and there would be hundreds.
    with rdBase.BlockLogs():
        for place, text in enumerate(smiles):
            groups[MurckoScaffoldSmiles(text)].append(place)
    most_train = int(_SHARES[0] * len(smiles))
    most_val = int(sum(_SHARES) * len(smiles))
    train: list[int] = []
    val: list[int] = []
    test: list[int] = []
    for group in sorted(groups.values(), key=lambda group: (-len(group), -group[0])):
        if len(train) + len(group) <= most_train:
            train += group
        elif len(train) + len(val) + len(group) <= most_val:
            val += group
        else:
            test += group
    return sorted(train), sorted(val), sorted(test)
