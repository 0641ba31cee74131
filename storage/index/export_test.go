package index

import "golang.org/x/text/unicode/norm"

// SetSpace replaces the free and total bytes of the disk that f reads.
func (f *Follower) SetSpace(space func() (free, total uint64, err error)) { f.space = space }

// Searchable reports whether text contains anything that can be searched for.
func Searchable(text string) bool { return len(tokenize(norm.NFC.String(text))) > 0 }
