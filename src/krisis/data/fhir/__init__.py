"""FHIR R4 resources as the source of a table: files, checked paths, one row per record."""
