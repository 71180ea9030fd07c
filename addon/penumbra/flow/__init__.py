"""This package handles mitmproxy's hooks, flow by flow.

`addon.py` passes the flows, WebSocket messages and connections of mitmproxy to this package. Requests and
responses are changed or stay, and get notes, log lines and figures. `request.py` has the steps for a request,
`response.py` for a response, and `websocket.py` for a WebSocket. `state.py` has the state of a flow, with a
record for each step. `mitm.py` names the part of mitmproxy that these steps use. `splice.py` makes one
response from several inside mitmproxy's core.
"""
