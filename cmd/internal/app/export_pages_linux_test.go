package app

import (
	"fmt"
	"io"
)

// CleanCopies returns the ranges of cleanMappings as text.
func CleanCopies(smaps io.Reader, file string) (spans []string) {
	for _, s := range cleanMappings(smaps, file) {
		spans = append(spans, fmt.Sprintf("%x-%x", s.from, s.to))
	}
	return spans
}
