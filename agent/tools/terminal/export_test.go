package terminal

// Clean converts terminal output to plain text.
func Clean(b []byte) string { return clean(b) }

// Unfinished returns the incomplete line of typed text.
func Unfinished(s string) string { return incompleteLine(s) }
