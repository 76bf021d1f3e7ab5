"""Small things everyone needs: clocks, quantities, durations, identifiers. Standard library only, no I/O."""
