"""Names that kernel libraries import: hardware."""
