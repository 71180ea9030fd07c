"""This package turns the plain body of a request into the body that is sent.

`flow/`, `retry/` and `projection/` call `engine.Engine` with a recognised request (`incoming.Incoming`) and
its settings. The engine returns `incoming.Accepted` with the body to send and the decisions about it, or
`incoming.Refused`. A request is read (`request_reader`, `read`, `items`). Each result gets a decision
(`decide`, `earlier_texts`, `back_references`). Smaller forms are planned if they pay or are needed
(`planner`). The request is then rendered (`rewrite`). The store and external compressors are the only I/O.
"""
