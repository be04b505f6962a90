"""The rules, one file a family; each looks at the facts and returns what it found."""
