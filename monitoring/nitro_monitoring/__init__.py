"""What people see of Nitro: dashboards, alerts and the reference of the metrics, all generated from here.

`make generate` writes the files; nothing of this is installed on a cluster. See __main__.py for the list.
"""
