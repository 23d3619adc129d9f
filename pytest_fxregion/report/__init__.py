"""What a run shows: the terminal summary."""
