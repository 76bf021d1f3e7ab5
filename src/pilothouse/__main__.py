"""``python -m pilothouse`` is the ``pilothouse`` command."""

from pilothouse.cli import main

if __name__ == "__main__":
    main()
