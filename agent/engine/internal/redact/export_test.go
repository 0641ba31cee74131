package redact

// Thorough is Text without hints.
func Thorough(s string) string {
	for _, f := range forms {
		s = f.re.ReplaceAllString(s, f.with)
	}
	return s
}
