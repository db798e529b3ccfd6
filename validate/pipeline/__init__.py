"""The user's own pipeline: one run over the shards, and checks of its loader.

The checks test whether it resumes, forks and splits.

``judge_pipeline`` runs it once and returns the verdict; ``check_loader`` runs it several times and
answers questions. The folders, from a verdict down to the user's code::

    observed     what one run has shown: its numbers, and the reasons for its losses
    run          one run: a process is started and watched, with a meter after each stage
    reports      what the processes of a run write while they run, and how it is read
    meters       what is counted at a stage

    checks       the questions about a loader, and the comparisons that answer them
    loader       runs of a loader, each in a new process

    user_code    finds and builds what the user has named
    values       what one element of the output holds, and marks of its values

``sample_copies.py`` makes small tars with copies of samples.
"""
