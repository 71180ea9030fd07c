"""This package handles mitmproxy's hooks, flow by flow.

`addon.py` passes mitmproxy's flows, WebSocket messages and connections to this package. The package may
change requests and responses, and adds notes, log lines and figures about them. `request.py` has the steps
for a request, `response.py` for a response, and `websocket.py` for a WebSocket. `state.py` has the state of a
flow, with a record for each step. `mitm.py` names the part of mitmproxy that these steps use. `splice.py`
makes one response from several inside mitmproxy's core.
"""
