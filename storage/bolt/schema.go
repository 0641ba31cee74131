package bolt

// SchemaNow is the schema that this program writes, and the newest that it can
// read.
func SchemaNow() int { return schemaNow() }
