"""The databases that pilots run: one ``Application`` each, registered once.

    find_application("redis").data_folder                # "/data"
    application_of_owner(pod.controller)                 # the one whose cluster kind the owner is of, or None
    for application in applications(): ...               # ours, and those of other packages

descriptor        what an ``Application`` says
pilot_sections    what it adds to the Pilot kind
registry          ours and, by their entry points, those of other packages

Whatever has to know something of a database asks here and names none. How a database is started and observed is for its
driver to know (``pilothouse.pilot.driver``).
"""
