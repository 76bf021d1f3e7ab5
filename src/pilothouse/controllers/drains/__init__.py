"""Drains: pods leave a machine before its update, and the machine takes pods again when it is done.

``drain_controller`` decides; ``machine_turns`` finds the turn that a signal asks for, and moves the signal;
``cordons`` marks the Node, and reads since when it is drained; ``pod_evictions`` chooses which pods may go;
``force_waits`` measures the wait before pods are deleted whatever their budgets say.
"""
