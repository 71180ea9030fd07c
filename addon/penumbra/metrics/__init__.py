"""This package counts Penumbra's work.

`flow/` passes facts about requests and responses to `journal.Journal`, which adds them to all sums. The page,
the command `stats`, the history and Prometheus read these sums. No sum or event has content.
"""
