"""``navigator.jetstack.io``: clusters of databases, and the pilots beside their instances.

``v1alpha1`` and ``v1beta1`` hold the fields, ``conversion`` the way between them, ``validation`` the rules, and ``kinds``
puts them together. ``elasticsearch``, ``cassandra`` and ``pilots`` say what follows from a spec.
"""
