"""Takes a pipeline apart, runs it with a meter after each stage, and reports the counts.

From the call down to the user's stages: ``trace``, ``trace_verdict`` and ``trace_table``, ``meter``
with ``trace_run`` and ``stage_trace``, ``pipeline_steps``, ``stage_handlers``, ``pipeline_stages``.
Runs of the user's pipeline in its own process use the same meters.
"""
