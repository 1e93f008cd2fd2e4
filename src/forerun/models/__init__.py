"""Backends: things that turn tokens into logits, and keep a cache."""
