"""This package turns the plain body of a request into the body that is sent.

`flow/`, `retry/` and `projection/` call `engine.Engine` with a recognised request (`incoming.Incoming`) and
its settings. The engine returns `incoming.Refused`, or `incoming.Accepted` with the body to send and the
decisions about the request. A request is read (`request_reader`, `read`, `items`). Each result gets a
decision (`decide`, `earlier_texts`, `back_references`). Smaller forms are planned if they cost less or are
needed (`planner`). The request is then rendered (`rewrite`). Only the store and external compressors do I/O.
"""
