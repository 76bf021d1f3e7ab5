"""Metrics in, verdicts out: what AutopilotRules watch, and which actions they call for.

Providers ask a Prometheus, or scrape and evaluate by themselves; nothing else here does I/O. The rest are
pure functions of rules, objects, samples, records and the time. What is to be done is written as
AutopilotRuleObjects, ActionApprovals and ApplicationActions; executors, which are controllers, act on the
latter.
"""
