"""What networks are for: a task says what a target is, what the loss is, and what is predicted, tallied, scored and drawn.

The training loop, the runner of evaluations and the report never ask which task they work on.
"""
