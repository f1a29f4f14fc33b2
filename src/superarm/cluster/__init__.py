"""Past one machine: catalogues in shards."""
