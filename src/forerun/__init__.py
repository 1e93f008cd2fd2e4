"""forerun: speculative decoding that is lossless, and proves it."""

__version__ = "0.1.0"
