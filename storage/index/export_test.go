package index

import "golang.org/x/text/unicode/norm"

// Searchable reports whether text contains anything that can be searched for.
func Searchable(text string) bool { return len(tokenize(norm.NFC.String(text))) > 0 }
