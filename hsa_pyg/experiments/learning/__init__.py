"""Learning from nested signals: hierarchical attention beside what it competes with.

Each task is a data set; each model is trained in the same way, and tested once.
"""
