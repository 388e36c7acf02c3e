"""Ideas that build on the core, each in a folder of its own: function, page, chart, command."""
