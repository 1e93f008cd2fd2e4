"""Pure functions on arrays, written once for NumPy and torch against the array API standard."""
