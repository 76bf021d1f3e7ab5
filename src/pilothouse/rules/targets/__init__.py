"""The targets of actions, one module for each action: pure functions of the object and of what it depends on.

``target_table`` has them by the name of the action. An executor in ``controllers.application_actions``
brings a target about; the two share nothing but the ApplicationAction.
"""
