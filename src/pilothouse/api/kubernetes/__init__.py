"""Kubernetes' own kinds, at their own paths and with their own semantics: as much of Kubernetes as stateful
applications need.

What fields there are comes from one derived table (``table``). By hand come what the table can't say: defaults,
enumerations and words, and for each group and version a module with validation, columns and the rules of change.
"""
