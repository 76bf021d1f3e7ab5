"""CEL, the expression language of validation rules: compiling, cost estimates, and running rules over an object."""
