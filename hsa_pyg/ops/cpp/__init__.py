"""The passes on the CPU, fused, in C++ without a word of Python or torch in it."""
