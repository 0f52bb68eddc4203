"""Files written atomically, and arrays in files with a checksum."""
