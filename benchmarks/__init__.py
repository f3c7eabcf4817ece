"""Side-by-side timings, each a command: ``python -m benchmarks NAME``."""
