"""Any method as a Flower app (extra ``peerwise[flower]``): sites are Flower's clients, the hub is its server.

``client.app`` and ``server.app`` read everything from the run's configuration, as ``settings.write_app`` writes it.
"""
