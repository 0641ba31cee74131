package memory

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// Key returns the key of a request: that of a Bearer or Token authorization, else
// X-API-Key, else "".
func Key(r *http.Request) string {
	scheme, key, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	if ok && (strings.EqualFold(scheme, "Bearer") || strings.EqualFold(scheme, "Token")) {
		return key
	}
	return r.Header.Get("X-Api-Key")
}

// A Hit is a text that a search found.
type Hit struct {
	Index int     // in the texts that were searched
	Score float64 // above 0, at most 1
}

// Search returns the texts that share words with the query, best first, at most limit.
// The services compare meanings; the simulators compare words, so a test must ask with
// a word of what it stored.
func Search(query string, texts []string, limit int) []Hit {
	asked := words(query)
	var hits []Hit
	for i, text := range texts {
		have := words(text)
		shared := 0
		for w := range asked {
			if have[w] {
				shared++
			}
		}
		if shared > 0 {
			hits = append(hits, Hit{i, float64(shared) / float64(len(asked))})
		}
	}
	slices.SortStableFunc(hits, func(a, b Hit) int { return cmp.Compare(b.Score, a.Score) })
	return hits[:min(limit, len(hits))]
}

// words returns the words of a text in lower case that have more than two letters, or
// any other than Latin ones.
func words(text string) map[string]bool {
	out := make(map[string]bool)
	for _, w := range strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		if len(w) > 2 {
			out[w] = true
		}
	}
	return out
}

// UUID returns a new random UUID.
func UUID() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

var uuidPattern = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// IsUUID reports whether s is a UUID in lower case.
func IsUUID(s string) bool { return uuidPattern.MatchString(s) }
