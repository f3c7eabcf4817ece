"""Ring systems, functional groups and chains of a molecule."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rdkit.Chem import Mol

#: What a group of atoms is; ``group.role`` holds places in this tuple.
GROUP_ROLES = ("ring", "functional_group", "chain", "lone_atom")
_RING, _FUNCTIONAL, _CHAIN, _LONE = range(4)

_CARBON, _HYDROGEN = 6, 1
_ACETAL_PARTNERS = {7, 8, 16}


def find_groups(molecule: Mol) -> list[tuple[int, list[int]]]:
    """The groups of a molecule, each with its role and its atoms, in their order.

    Every atom is in one group; see :func:`from_smiles`.
    """
    atoms = list(molecule.GetAtoms())
    role = [_CHAIN] * len(atoms)
    for atom in _marked(atoms):
        role[atom] = _FUNCTIONAL
    ring_atoms: list[set[int]] = [set() for _ in atoms]
    for number, ring in enumerate(molecule.GetRingInfo().AtomRings()):
        for atom in ring:
            role[atom] = _RING
            ring_atoms[atom].add(number)
    joined = []
    for bond in molecule.GetBonds():
        first, second = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()
        for atom, other in ((first, second), (second, first)):
            if _follows(atoms[atom]) and not _follows(atoms[other]):
                role[atom] = role[other]
                joined.append((atom, other))
        if role[first] == role[second] and (
            # A bond between two ring systems is in no ring: biphenyl has two.
            role[first] != _RING or ring_atoms[first] & ring_atoms[second]
        ):
            joined.append((first, second))
    groups = []
    for members in _components(len(atoms), joined):
        alone = len(members) == 1 and atoms[members[0]].GetDegree() == 0
        groups.append((_LONE if alone else role[members[0]], members))
    return groups


def _marked(atoms: list[Any]) -> list[int]:
    """Atoms of functional groups by Ertl's rules, whether in rings or not."""
    marked = []
    for atom in atoms:
        if atom.GetAtomicNum() not in (_CARBON, _HYDROGEN):
            marked.append(atom.GetIdx())
        if atom.GetAtomicNum() != _CARBON:
            continue
        bonds = [str(bond.GetBondType()) for bond in atom.GetBonds()]
        partners = [
            other
            for other in atom.GetNeighbors()
            if other.GetAtomicNum() in _ACETAL_PARTNERS
            and all(str(bond.GetBondType()) == "SINGLE" for bond in other.GetBonds())
        ]
        acetal = set(bonds) == {"SINGLE"} and len(partners) >= 2
        if acetal or "DOUBLE" in bonds or "TRIPLE" in bonds:
            marked.append(atom.GetIdx())
    return marked


def _follows(atom: Any) -> bool:
    return atom.GetAtomicNum() == _HYDROGEN and atom.GetDegree() == 1


def _components(size: int, pairs: Iterable[tuple[int, int]]) -> list[list[int]]:
    """Connected components, each ascending, in the order of their first members."""
    near: list[list[int]] = [[] for _ in range(size)]
    for first, second in pairs:
        near[first].append(second)
        near[second].append(first)
    out = []
    seen = [False] * size
    for start in range(size):
        if seen[start]:
            continue
        seen[start] = True
        members, todo = [], [start]
        while todo:
            member = todo.pop()
            members.append(member)
            for other in near[member]:
                if not seen[other]:
                    seen[other] = True
                    todo.append(other)
        out.append(sorted(members))
    return out
