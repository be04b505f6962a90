"""What the plugins share about PyTorch; the only part of the core that imports torch."""

# First: under `traintrace run` its import attaches the plugin, which must not find half-made modules of ours.
import torch  # noqa: F401
