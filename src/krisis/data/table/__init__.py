"""The table suite: a YAML file over a table, a database or a folder of files is a suite."""
