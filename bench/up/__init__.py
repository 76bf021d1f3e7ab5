"""How long `pilothouse up` takes until its Node is ready, and how much memory its processes take."""
