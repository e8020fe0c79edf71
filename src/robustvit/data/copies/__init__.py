"""Corrupted copies of datasets: the trees that `robustvit corrupt` writes."""
