import pytest

from hsa_pyg.converters.atom_groups import GROUP_ROLES, find_groups

Chem = pytest.importorskip("rdkit.Chem", reason="rdkit is not installed")

RING, FUNCTIONAL, CHAIN, LONE = (
    GROUP_ROLES.index(role)
    for role in ("ring", "functional_group", "chain", "lone_atom")
)

KNOWN = {
    # Aspirin: methyl, ester, benzene, acid.
    "CC(=O)Oc1ccccc1C(=O)O": [
        (CHAIN, [0]),
        (FUNCTIONAL, [1, 2, 3]),
        (RING, [4, 5, 6, 7, 8, 9]),
        (FUNCTIONAL, [10, 11, 12]),
    ],
    # Fused, bridged and spiro rings are one system; biphenyl has two.
    "c1ccc2ccccc2c1": [(RING, list(range(10)))],
    "C1CC2CCC1C2": [(RING, list(range(7)))],
    "C1CC11CC1": [(RING, list(range(5)))],
    "c1ccc(-c2ccccc2)cc1": [(RING, [0, 1, 2, 3, 10, 11]), (RING, [4, 5, 6, 7, 8, 9])],
    # An atom of a ring stays with its ring, whatever else it is.
    "O=C1CCCC1": [(FUNCTIONAL, [0]), (RING, [1, 2, 3, 4, 5])],
    "c1ccncc1": [(RING, list(range(6)))],
    # Ertl's rules one by one.
    "CCO": [(CHAIN, [0, 1]), (FUNCTIONAL, [2])],
    "CC#N": [(CHAIN, [0]), (FUNCTIONAL, [1, 2])],
    "CCC=CC": [(CHAIN, [0, 1]), (FUNCTIONAL, [2, 3]), (CHAIN, [4])],
    "CC#CC": [(CHAIN, [0]), (FUNCTIONAL, [1, 2]), (CHAIN, [3])],
    "CC(OC)OC": [(CHAIN, [0]), (FUNCTIONAL, [1, 2, 4]), (CHAIN, [3]), (CHAIN, [5])],
    "ClCCl": [(FUNCTIONAL, [0]), (CHAIN, [1]), (FUNCTIONAL, [2])],
    "COCCO": [
        (CHAIN, [0]),
        (FUNCTIONAL, [1]),
        (CHAIN, [2, 3]),
        (FUNCTIONAL, [4]),
    ],
    # Salts, ions, single atoms.
    "CC(=O)[O-].[Na+]": [(CHAIN, [0]), (FUNCTIONAL, [1, 2, 3]), (LONE, [4])],
    "[Na+].[Cl-]": [(LONE, [0]), (LONE, [1])],
    "C": [(LONE, [0])],
    # Hydrogens go with their neighbours.
    "[2H]C([2H])O": [(CHAIN, [0, 1, 2]), (FUNCTIONAL, [3])],
    "[2H]c1ccccc1": [(RING, list(range(7)))],
    "[H][H]": [(CHAIN, [0, 1])],
}


@pytest.mark.parametrize("smiles", KNOWN)
def test_known_molecules(smiles):
    assert find_groups(Chem.MolFromSmiles(smiles)) == KNOWN[smiles]


def test_all_hydrogens_go_with_their_neighbours():
    bare = Chem.MolFromSmiles("CC(=O)Oc1ccccc1C(=O)O")
    full = Chem.AddHs(bare)
    groups = find_groups(full)
    assert [role for role, _ in groups] == [role for role, _ in find_groups(bare)]
    for (_, members), (_, heavy) in zip(groups, find_groups(bare), strict=True):
        hydrogens = {
            other.GetIdx()
            for atom in heavy
            for other in full.GetAtomWithIdx(atom).GetNeighbors()
            if other.GetAtomicNum() == 1
        }
        assert set(members) == {*heavy, *hydrogens}


def test_long_chains_need_no_recursion():
    assert find_groups(Chem.MolFromSmiles("C" * 5000)) == [(CHAIN, list(range(5000)))]
