"""The databases that pilots run: one ``Application`` each.

    find_application("redis").data_folder                # "/data"
    application_of_owner(pod.controller)                 # by the owner's kind, or None
    for application in applications(): ...               # ours, and those of other packages

Other code gets what it needs of a database here and names none. Starting and observing a
database is up to its driver (``pilothouse.pilot.driver``).
"""
