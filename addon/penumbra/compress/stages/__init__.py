"""This package has the stages of the pipeline that need no command family. A stage is a function from text to
text, without side effects. `stage_order.py` and `pipeline.py` call the stages.
"""
