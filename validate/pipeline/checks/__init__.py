"""Does a loader resume, start its workers by any method, and split its samples?

One file for each question. ``resume_difference`` compares a run that was resumed, ``shared_reads``
describes what several processes have read together.
"""
