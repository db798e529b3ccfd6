"""Output folders in object stores: a local folder in which the run works, kept equal to the objects of a url."""
