"""Videos as scores see them: header facts without decoding, and single frames as images, by PyAV."""
