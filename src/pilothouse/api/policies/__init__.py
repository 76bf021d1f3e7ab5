"""Modules of ready-made rules: one ``PolicyModule`` for each application.

    find_module("postgres").policies             # volume-resize, time-to-full, slow-volume, wal-held
    expand("orders", spec).rules                 # the AutopilotRules of an ApplicationPolicy

An ApplicationPolicy picks policies of a module and sets their parameters; its controller makes
AutopilotRules of them. Nouns only: nothing here measures, reads or writes anything.
"""
