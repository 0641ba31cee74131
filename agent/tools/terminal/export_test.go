package terminal

// Clean is what makes plain text of output.
func Clean(b []byte) string { return clean(b) }

// Unfinished is what of typed lines goes on.
func Unfinished(s string) string { return unfinished(s) }
