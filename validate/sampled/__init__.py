"""A check of random samples: reads samples until it is proven that few are lost, or many.

``sampled_check`` draws and judges, ``binomial_test`` decides when that is enough,
``sampled_report`` is the result.
"""
