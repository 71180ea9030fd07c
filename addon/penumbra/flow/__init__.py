"""mitmproxy's hooks, flow by flow.

In: flows, WebSocket frames and connections of mitmproxy. Out: requests and responses, changed or as they
came, with notes, log lines and figures. Called by `addon.py`. A request's way is in `request.py`, a
response's in `response.py`, step by step, and a WebSocket's in `websocket.py`. `state.py` has the state of a
flow, with a record for each step; `mitm.py` names the part of mitmproxy that these ways use. `splice.py`
makes one response of several inside mitmproxy's core.
"""
