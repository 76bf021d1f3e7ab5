"""What exists: the nodes with their pods and Pilots, and the health that the leading pilot reports."""
