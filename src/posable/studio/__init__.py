"""The studio: pose a figure in the browser. `session` holds everything as plain data; `server` shows it with viser."""
