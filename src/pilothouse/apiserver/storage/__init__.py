"""Objects in the store, the watch cache, and lists and watches from it. It knows no users, verbs or kinds."""
