package bolt

// SchemaNow returns the version of the schema that this program writes. It is
// the newest one that the program can read.
func SchemaNow() int { return currentSchema() }
