"""What a compilation leaves behind: joint graph, forward and backward, and their regions."""
