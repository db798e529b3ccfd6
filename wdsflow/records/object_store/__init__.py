"""Output folders in object stores.

The run works in a local folder that is kept equal to the objects of a url.
"""
