"""A request on its way from its plain body to the body that is sent.

In: a recognised request (`incoming.Incoming`) with its settings, from `flow/`, `retry/` and `projection/`,
which all call `engine.Engine`. Out: `incoming.Accepted` with the body to send and the decisions about it, or
`incoming.Refused`. A request is read (`request_reader`, `read`, `items`), decided result by result (`decide`,
`earlier_texts`, `back_references`), shrunk where that pays or is needed (`planner`), and
rendered (`rewrite`). The store and external compressors are the only I/O.
"""
