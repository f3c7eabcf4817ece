"""Molecules to signals: molecule > group > atom."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch_geometric.data import Data
from torch_geometric.utils.smiles import x_map

from hsa_pyg.converters.atom_groups import find_groups
from hsa_pyg.converters.graph_columns import (
    GraphColumns,
    Level,
    read_data,
    refuse_mangled_names,
    store_attributes,
)
from hsa_pyg.converters.labels import Label
from hsa_pyg.data import NestedSignal
from hsa_pyg.hierarchy import CHILD_OF

ATOM_SIZES = tuple(len(values) for values in x_map.values())
"""Number of ids in each of the nine columns of ``atom.x``, for ``vocab_sizes``."""

if TYPE_CHECKING:
    from rdkit.Chem import Mol

MOLECULE, GROUP, ATOM = "molecule", "group", "atom"
BOND = (ATOM, "bond", ATOM)


def from_smiles(smiles: str, *, y: Label | None = None) -> NestedSignal:
    r"""Divide a molecule into ring systems, functional groups and chains.

    Every atom belongs to one group:

    - ``"ring"``: a ring system. Rings that share an atom (fused, bridged or spiro) form
      one.
    - ``"functional_group"``: atoms outside of rings that hang together and that the
      rules of P. Ertl mark, "An algorithm to identify functional groups in organic
      molecules", J. Cheminformatics 9:36, 2017
      (https://doi.org/10.1186/s13321-017-0225-z): all heteroatoms; carbons with a
      double or triple bond to another atom outside of an aromatic ring; acetal carbons.
    - ``"chain"``: what is left of the atoms outside of rings, as far as it hangs
      together.
    - ``"lone_atom"``: a fragment of one atom, such as the ion of a salt.

    A hydrogen that is an atom of the graph goes with its neighbour. The signal has the
    node types ``molecule`` (the root), ``group`` and ``atom``:

    - ``atom.x``: nine ids as of :func:`torch_geometric.utils.from_smiles`, for which
      ``HSATransformer.from_schema(..., vocab_sizes={"atom": ATOM_SIZES})`` has tables;
    - ``group.role``: place in :data:`~hsa_pyg.converters.GROUP_ROLES`;
      ``group.fragment``: which of the molecules of a salt or mixture it is in, counted
      from 0;
    - ``("atom", "bond", "atom")``: the bonds, each in both directions, with three ids
      as ``edge_attr``.

    Atoms have the order of the text, groups that of their first atoms.

    Args:
        smiles: The molecule; fragments are separated by dots.
        y: A label.

    Raises:
        TypeError: If ``smiles`` is no text.
        ValueError: If rdkit cannot read it, or it has no atom.
        ImportError: If rdkit is missing.

    Shapes:
        - ``atom.x``: ``[num_atoms, 9]`` long
        - ``edge_attr``: ``[2 * num_bonds, 3]`` long
        - ``group.role``, ``group.fragment``: ``[num_groups]`` long

    .. code-block:: python

        >>> from hsa_pyg.converters import GROUP_ROLES
        >>> aspirin = from_smiles("CC(=O)Oc1ccccc1C(=O)O")
        >>> [GROUP_ROLES[role] for role in aspirin["group"].role]
        ['chain', 'functional_group', 'ring', 'functional_group']
        >>> aspirin["atom", "child_of", "group"].edge_index[1]
        tensor([0, 1, 1, 1, 2, 2, 2, 2, 2, 2, 3, 3, 3])
    """
    molecule = read_smiles(smiles)
    columns = _columns(molecule, repr(smiles))
    columns.graph["smiles"] = smiles
    return _finish(molecule, columns, y)


def from_molecule(
    molecule: Data | Mol,
    *,
    y: Label | None = None,
    rename: Mapping[str, str | None] | None = None,
    levels: Mapping[str, Level] | None = None,
) -> NestedSignal:
    r"""As :func:`from_smiles`, of a molecule of rdkit or of a PyG data set.

    Args:
        molecule: A ``rdkit.Chem.Mol``; or a :class:`~torch_geometric.data.Data` with
            its SMILES in ``smiles`` whose nodes are the atoms in the order of that
            text (as in MoleculeNet, not in QM9). It keeps its own features and other
            attributes; ``pos`` of the atoms becomes ``coord``.
        y: A label.
        rename: New names of attributes, as for
            :func:`~hsa_pyg.converters.from_graph`.
        levels: ``"vertex"`` (atom), ``"edge"`` or ``"graph"`` for attributes, likewise.

    Raises:
        TypeError: If ``molecule`` is of another kind.
        ValueError: If a Data has no ``smiles`` or its bonds are not those of that text;
            else as :func:`from_smiles` and :func:`~hsa_pyg.converters.from_graph`.
        ImportError: If rdkit is missing.

    Example:
        >>> from rdkit import Chem
        >>> signal = from_molecule(Chem.MolFromSmiles("CCO"))
        >>> signal["atom"].num_nodes, signal["atom", "bond", "atom"].num_edges
        (3, 4)
    """
    chem = _rdkit()
    if isinstance(molecule, chem.Mol):
        own = chem.Mol(molecule)
        name = "given"
        try:
            name = repr(chem.MolToSmiles(own))
            own.UpdatePropertyCache(strict=False)
            chem.GetSymmSSSR(own)
            columns = _columns(own, name)
        except RuntimeError as error:
            raise ValueError(
                f"the molecule {name} is not ready: pass it through "
                "rdkit.Chem.SanitizeMol"
            ) from error
        columns.graph["smiles"] = chem.MolToSmiles(own)
        return _finish(own, columns, y)
    if not isinstance(molecule, Data):
        raise TypeError(
            "from_molecule takes a torch_geometric.data.Data or a rdkit.Chem.Mol, got "
            f"a {type(molecule).__name__}; from_smiles takes texts"
        )
    smiles = molecule.get("smiles")
    if not isinstance(smiles, str):
        raise ValueError(
            "the data has no text 'smiles', by which its groups are found; set "
            "data.smiles, or use from_graph, which finds communities"
        )
    parsed = read_smiles(smiles)
    columns = read_data(molecule, levels or {})
    _check_alike(columns, _columns(parsed, repr(smiles)), smiles)
    columns.rename(rename or {})
    return _finish(parsed, columns, y)


def read_smiles(smiles: str) -> Mol:
    """The molecule that a text stands for.

    Raises:
        TypeError: If it is no text.
        ValueError: If rdkit cannot read it, or it has no atom; it names the text.
    """
    if not isinstance(smiles, str):
        raise TypeError(f"SMILES are texts, got a {type(smiles).__name__}")
    chem = _rdkit()
    from rdkit import rdBase

    # What rdkit would print stands in the error, for this call only.
    with rdBase.BlockLogs():
        molecule = chem.MolFromSmiles(smiles)
        if molecule is None:
            unsanitised = chem.MolFromSmiles(smiles, sanitize=False)
            problems = chem.DetectChemistryProblems(unsanitised) if unsanitised else ()
            reason = (
                "; ".join(problem.Message() for problem in problems) or "wrong syntax"
            )
            raise ValueError(f"rdkit cannot read the SMILES {smiles!r}: {reason}")
    if molecule.GetNumAtoms() == 0:
        raise ValueError(f"the SMILES {smiles!r} has no atom")
    return molecule


def _columns(molecule: Mol, name: str) -> GraphColumns:
    from torch_geometric.utils import from_rdmol

    if molecule.GetNumAtoms() == 0:
        raise ValueError(f"the molecule {name} has no atom")
    try:
        data = from_rdmol(molecule)
    except ValueError as error:
        raise ValueError(
            f"the molecule {name} has an atom or a bond for which the ids of PyG have "
            f"no place: {error}"
        ) from error
    columns = GraphColumns(molecule.GetNumAtoms(), data.edge_index)
    columns.vertex["x"] = data.x
    columns.edge["edge_attr"] = data.edge_attr
    return columns


def _check_alike(given: GraphColumns, parsed: GraphColumns, smiles: str) -> None:
    def bonds(columns: GraphColumns) -> set[tuple[int, ...]]:
        ends = columns.edge_index.sort(dim=0).values
        return set(map(tuple, ends.t().tolist()))

    remedy = (
        "attributes of atoms would go astray: use from_smiles(data.smiles, y=data.y)"
    )
    if given.num_nodes != parsed.num_nodes:
        raise ValueError(
            f"the data has {given.num_nodes} nodes, but its SMILES {smiles!r} has "
            f"{parsed.num_nodes} atoms (without the hydrogens that it implies), so "
            f"{remedy}"
        )
    number = parsed.vertex["x"][:, 0]
    z = given.vertex.get("z", number).view(-1).long()
    x = given.vertex.get("x", parsed.vertex["x"])
    if x.shape == parsed.vertex["x"].shape and not x.is_floating_point():
        # Ids of PyG or of OGB, which count the elements from 0.
        z = z if torch.equal(x[:, 0] + 1, number) else x[:, 0]
    if bonds(given) != bonds(parsed) or not torch.equal(z, number):
        raise ValueError(
            f"the nodes of the data are not the atoms of its SMILES {smiles!r} in the "
            f"same order, so {remedy}"
        )
    if "x" not in given.vertex:
        given.vertex = {**parsed.vertex, **given.vertex}
        given.edge.setdefault("edge_attr", parsed.edge["edge_attr"])


def _finish(molecule: Mol, columns: GraphColumns, y: Any) -> NestedSignal:
    chem = _rdkit()
    if y is not None:
        columns.set_label(y)
    groups = find_groups(molecule)
    fragment_of = {
        atom: number
        for number, fragment in enumerate(chem.GetMolFrags(molecule))
        for atom in fragment
    }
    signal = NestedSignal()
    signal[MOLECULE].num_nodes = 1
    signal[GROUP].num_nodes = len(groups)
    signal[GROUP].role = torch.tensor([role for role, _ in groups])
    signal[GROUP].fragment = torch.tensor([fragment_of[m[0]] for _, m in groups])
    store_attributes(signal[ATOM], columns.vertex, ATOM)
    parent = torch.empty(columns.num_nodes, dtype=torch.long)
    for number, (_, members) in enumerate(groups):
        parent[members] = number
    signal[GROUP, CHILD_OF, MOLECULE].edge_index = torch.stack(
        [torch.arange(len(groups)), torch.zeros(len(groups), dtype=torch.long)]
    )
    signal[ATOM, CHILD_OF, GROUP].edge_index = torch.stack(
        [torch.arange(columns.num_nodes), parent]
    )
    signal[BOND].edge_index = columns.edge_index
    store_attributes(signal[BOND], columns.edge, "bond")
    store_attributes(signal._global_store, columns.graph, MOLECULE, type(signal))
    refuse_mangled_names(signal)
    return signal


def _rdkit() -> Any:
    try:
        from rdkit import Chem
    except ImportError as error:
        raise ImportError(
            'Molecules need rdkit: pip install "hsa-pyg[chem]".'
        ) from error
    return Chem
