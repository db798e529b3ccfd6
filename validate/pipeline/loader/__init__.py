"""Runs of the user's loader, each in a new process, with the samples and states that it gave.

``loader_runs`` starts processes over ``loader_shards``; ``loader_messages`` has what they get and
report. In the process, ``loader_serving`` builds and reads the loader, as a rank
(``loader_ranks``), and ``loader_facts`` describes it: ``loader_parts`` what it is made of,
``source_lines`` the lines of the user, ``unpicklable_parts`` what no worker can get.
"""
