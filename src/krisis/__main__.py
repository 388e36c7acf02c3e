"""`python -m krisis`: the same as the command `krisis`."""

from krisis.cli.app import main

main()
