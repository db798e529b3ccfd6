"""One pass over the shards of a run.

``filter_pass`` describes it, ``run_pass`` runs it step by step.

The steps: ``pass_tasks`` lists the shards that are not done, ``pass_models`` starts models,
``pass_engine`` the workers, and ``pass_results`` takes what they return. Scores that compare all
samples need ``two_passes``.
"""
