"""Files of other programs: predictions that become runs, and runs that become tables and logs."""
