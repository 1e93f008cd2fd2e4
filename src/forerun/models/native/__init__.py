"""GGUF files on the CPU, with kernels shaped for verification: `model.NativeModel`."""
