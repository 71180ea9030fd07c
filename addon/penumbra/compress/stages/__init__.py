"""This package has the stages of the pipeline that need no command family. A stage is a pure function from
text to text. `stage_order.py` and `pipeline.py` call the stages.
"""
