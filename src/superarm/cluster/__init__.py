"""Past one belief and one machine: many users, many files, catalogues in shards."""
