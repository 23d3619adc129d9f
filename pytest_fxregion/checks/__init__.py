"""What is held against eager: numbers, and the additions of gradients."""
