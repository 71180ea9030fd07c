"""This package computes what Penumbra would have saved in requests that were sent without it. The functions
take recorded requests or conversations from session logs, and return figures. `penumbra discover` and
`penumbra replay` call the package.
"""
