"""Metrics in, verdicts out: what AutopilotRules watch, and which actions they call for.

What is to be done is written as AutopilotRuleObjects, ActionApprovals and ApplicationActions; executors,
which are controllers, act on the latter. I/O is done by ``providers``, which ask a Prometheus or scrape
pages, and by ``webhooks``, an observer. The rest are functions of rules, objects, samples, records and time.

rule_controllers        the controllers; they share one ``rule_watch``, which polls, and read its ``readings``
rule_queries, provider_round, rule_providers, samples
                        what a rule asks of its provider, and the answers of one poll
join, join_labels       samples of series to the objects that the labels name
object_types, rule_selection
                        which objects a rule is about
object_table, level_tables, level_relations
                        the objects of each level as arrays, and which belong to which
evaluation              all objects under one rule
verdict, verdicts, causes
                        whether conditions are met, and by which values
candidate_choice        which candidate of a rule is taken
past_samples            values of the last hour
ruled_objects, rule_case, object_records
                        one object under one rule: its record, and all that decides what becomes of it
object_states           its states and transitions, which call for ``state_requests``
state_intents, rule_object_status
                        the writes that follow
action_targets, targets what exactly an action would bring about
action_budgets, opposite_actions
                        what keeps an action from starting
action_verification     whether an action helped
steady_clock            the clock of all timers
rule_problems, rule_explanations, question_answers, reading_text
                        what people are told of a rule and its objects
rule_reports            ``pilothouse rule test``; ``rule_fixtures`` with series and expected states of a file
backtest, backtest_page, virtual_run, recorded_series
                        rules over series of the past
storage_policies        rules in their form of 2019
promql, series_store, metrics_pages
                        series in memory, and expressions over them
rule_invariants         what holds whatever fails; the simulator checks it
"""
