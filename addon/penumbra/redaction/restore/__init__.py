"""Values put back where the model wrote placeholders into edits of files. Off by default."""
