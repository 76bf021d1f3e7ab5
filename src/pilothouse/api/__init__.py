"""Every kind served: fields, defaults, validation and conversion, a module per group and version. No I/O."""
