"""What everything stands on: keyed randomness, whole files, memory, processes, signals, spelling, evaluation mode."""
