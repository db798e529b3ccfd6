"""L: rules on samples with several images, interleaved documents, video and audio."""
