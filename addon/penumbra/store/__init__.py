"""This package stores state between requests.

`Stores` (in `stores.py`) has the tables. A table (`keyed_values.py`) maps hashes to values. The values are
encrypted in a file of this machine, or in a store that several proxies share. `conversation/` and `expand/`
read and write the tables.
"""
