package frontmatter

// Simple is how a front matter is read without the YAML parser.
func Simple(front []byte) (map[string]any, bool) { return simple(front) }

// Parsed is how it is read with the parser.
func Parsed(front []byte) (map[string]any, error) { return parsed(front) }
