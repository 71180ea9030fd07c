"""mitmproxy's hooks, flow by flow.

`addon.py` hands the flows, WebSocket messages and connections of mitmproxy to this folder. Requests and
responses go out changed or unchanged, with notes, log lines and figures. A request's way is in `request.py`,
a response's in `response.py`, step by step, and a WebSocket's in `websocket.py`. `state.py` has the state of
a flow, with a record for each step; `mitm.py` names the part of mitmproxy that these ways use. `splice.py`
makes one response of several inside mitmproxy's core.
"""
