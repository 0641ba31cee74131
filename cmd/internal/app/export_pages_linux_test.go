package app

import (
	"fmt"
	"io"
)

// CleanCopies is cleanCopies, in words.
func CleanCopies(smaps io.Reader, file string) (spans []string) {
	for _, s := range cleanCopies(smaps, file) {
		spans = append(spans, fmt.Sprintf("%x-%x", s.from, s.to))
	}
	return spans
}
