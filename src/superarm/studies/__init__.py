"""The paper's experiments: one file a section."""
