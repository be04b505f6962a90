"""What the plugins share about PyTorch; the only part of the core that imports torch."""
