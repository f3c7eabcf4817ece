"""Experiments: tasks, models and their comparison."""
