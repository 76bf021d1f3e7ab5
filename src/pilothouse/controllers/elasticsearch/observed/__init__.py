"""What there is: the nodes of a cluster with their pods and Pilots, and the health that the leading pilot
reports."""
