"""One run of the user's pipeline, in a process that can hang, die or be killed.

``run_pipeline`` starts the process with a ``run_request``, waits, and returns an ``observed_run``.
In the process, ``run_process`` builds the pipeline and runs it as a ``reported_run``; datasets of
DataLoaders are ``measured_loaders``. ``input_limits`` end the input, ``pass_limit`` that of a
pipeline which never ends.
"""
