"""How OpenCLIP 3.3 and 4 behave: flags, start, shards of each worker, dropped samples; and wdsflow's feed for them."""
