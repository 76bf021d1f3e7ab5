"""CEL, the language of validation rules: compiling, cost estimates, running rules over an object."""
