"""Plans: machines are updated step by step, controllers first, and nothing begins that would cost the quorum.

``plan_controller`` puts a decision together. Each other module holds one concept: a decision about a run in
progress (``update_run``), its start, end and history (``run_lifecycle``), the targets (``discovery``) and the
checks before the first of them (``start_checks``), the order of the targets (``stages``, ``waves``), the
machines in progress (``machines_in_progress``) and their signals (``turn_signals``), the turns of controllers
(``controller_turns``) and workers (``worker_turns``), what is asked of the observer (``questions``,
``gates``), what holds or stops a run (``run_limits``) or a machine (``gate_waits``), the return to
earlier versions (``rollback``), and what a person reads in the status (``progress``). ``preview`` says what
a plan would do.

A turn is recorded in the status before the machine is signalled, and the status is written only if the plan
is still the version that the decision saw. So the number of machines in progress is never exceeded, and after
a crash the record says which machines may lack their signal.
"""
