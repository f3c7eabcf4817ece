"""``python -m hsa_pyg.cli`` is ``hsa-pyg``."""

from hsa_pyg.cli import main

main()
