"""ElasticsearchClusters: pools of nodes, made, grown, drained, shrunk and rolled without losing a document.

``deciding`` puts a decision together, from what ``observed`` looks at once. ``asking`` reads what the cluster wants, ``nodes`` what there is, ``containers`` whether a pod's
database has run, ``health`` what the leading pilot says of the whole; ``supporting_objects``, ``sets`` and ``configuring`` say what the objects should look like, and ``keeping`` has them so; ``rolling``, ``reconfiguring``, ``draining`` and ``growing`` each
take the next step of their kind. A roll goes by what ``refusing`` leaves to be asked for and ``taking`` lets go down, is helped by ``mending`` where it breaks a node, and is
told to the sets by ``templating``. ``securing`` reads the Secrets of a cluster that asks for security and ``forging`` makes them, ``upgrades`` says which versions may follow which, ``status`` what is told. What passes between here
and the pilots is the Pilot object alone (``docs/adr/0010``).
"""
