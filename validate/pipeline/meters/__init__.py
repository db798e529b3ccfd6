"""What is counted at each stage of a pipeline while it runs.

``reported_stage`` has the counts, ``new_stages`` describes a stage before it runs. The others find what counts alone do
not show: ``followed_keys`` samples that come out twice, ``combined_samples`` samples that are put into one element,
``batch_counts`` the samples in a batch, ``followed_stages`` stages whose code is known.
"""
