"""``python -m hsa_pyg`` is ``hsa-pyg``."""

from hsa_pyg.cli import main

main()
