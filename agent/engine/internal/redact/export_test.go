package redact

// Thorough is Text without the hints.
func Thorough(s string) string {
	for _, f := range patterns {
		s = f.re().ReplaceAllString(s, f.with)
	}
	return s
}
