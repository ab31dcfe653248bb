"""The panels of the page: each function adds the widgets of one panel and returns a callback that refreshes them."""
