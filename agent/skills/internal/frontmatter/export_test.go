package frontmatter

// Simple parses a front matter without the YAML parser.
func Simple(front []byte) (map[string]any, bool) { return parseSimple(front) }

// Parsed parses it with the YAML parser.
func Parsed(front []byte) (map[string]any, error) { return parseYAML(front) }
