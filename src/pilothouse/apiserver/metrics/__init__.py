"""What the server reports to Prometheus, about itself and about objects."""
