package index

import "golang.org/x/text/unicode/norm"

// Searchable reports whether text has anything that can be searched for.
func Searchable(text string) bool { return len(tokens(norm.NFC.String(text))) > 0 }
