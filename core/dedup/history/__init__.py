"""Where histories, attempts and reports lie, and how they are read and written: folders and object stores."""
