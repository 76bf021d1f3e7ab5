"""Basic types: clocks, quantities, durations, identifiers. Standard library only, no I/O."""
