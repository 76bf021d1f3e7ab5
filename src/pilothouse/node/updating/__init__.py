"""The update agent: carries out the turns that update plans give to this machine.

update_agent        follows the signals on the objects of this machine, and hands each turn to its update
planned_payload     what the Plan has for a turn: the signal says when, the Plan says what
update_journal      what was begun, on disk before it is done
turn_signal         the steps that are reported in the signal
program_update      replaces the program, restarts it, checks it, and returns to the version that worked
bundle_update       brings a bundle of images to the machine
installed_program   the file of the program: installed, kept, downloaded
installed_tree      the files of Pilothouse itself: trees, and the link to the current one
tree_launcher       starts the current tree, and returns to the kept one by itself
managed_program     asks the program for version and health, and restarts it by a command
supervised_program  runs the program itself
own_program         Pilothouse as the program: the agent restarts itself
program_check       decides whether a restarted program is the new one, and healthy
update_profile      what is updated, and how
control_node_report the status of the ControlNode of this machine
node_version_report the version of a worker's program, in an annotation of its Node

The agent may be killed at any instruction: the next one goes on where the journal says. It knows nothing of
how payloads are downloaded (``interfaces.PayloadSource``).
"""
