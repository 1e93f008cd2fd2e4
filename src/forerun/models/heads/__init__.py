"""Heads: small networks that read a target's hidden states and guess what it says next."""
