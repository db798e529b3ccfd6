"""One run of the user's pipeline, in a process that can hang, die or be killed.

``run_pipeline`` starts the process with a ``run_request``, and waits. In the process, ``run_process`` builds the pipeline and
runs it as a ``reported_run``; datasets of DataLoaders are ``measured_loaders``. ``pass_limit`` ends what never ends.
"""
