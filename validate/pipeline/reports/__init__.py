"""What the processes of a run write into its folder while they run, and how that is read.

Written again and again: ``process_report`` all counts, ``process_position`` the last step,
``sample_counts`` what all workers have read together, ``process_stacks`` where the code hangs.
Written once a sample: ``run_lists``, filled by ``sample_lists``.
"""
