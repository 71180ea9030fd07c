"""mitmproxy's hooks, flow by flow.

In come flows, WebSocket frames and connections of mitmproxy; out go requests and responses, changed or as
they came, and what is shown of them. `addon.py` calls the hooks here. A request's way is in `request.py`, a
response's in `response.py`, step by step, and a WebSocket's in `websocket.py`. `state.py` has all that is
known of a flow meanwhile, each step's record beside the others; `mitm.py` names the part of mitmproxy that
these ways know. `splice.py` makes one response of several inside mitmproxy's core.
"""
