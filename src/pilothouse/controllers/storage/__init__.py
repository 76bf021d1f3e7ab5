"""Claims and volumes: which claim has which volume (``claims``), what becomes of volumes (``volumes``), and that neither goes while it
is in use (``protection``). Making volumes is a provisioner's work: it is asked for, and waited for."""
