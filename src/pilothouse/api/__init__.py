"""The nouns: every kind served, one module per group and version, with defaults, validation and conversion. No I/O."""
