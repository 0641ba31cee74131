package injection_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// A sample is one text of a corpus. Its kind is the expected finding ID of an attack, or
// the category of a benign text.
type sample struct{ kind, text string }

var escape = regexp.MustCompile(`\\u\{([0-9A-F]+)\}`)

// corpus reads testdata/<set>/<name>.txt: a line "== kind" begins a sample, and \u{200B}
// stands for a character that would be invisible in the file.
func corpus(t testing.TB, set, name string) []sample {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", set, name+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	var out []sample
	for part := range strings.SplitSeq("\n"+string(raw), "\n== ") {
		kind, text, ok := strings.Cut(part, "\n")
		if !ok || strings.TrimSpace(text) == "" {
			continue
		}
		text = escape.ReplaceAllStringFunc(text, func(s string) string {
			n, err := strconv.ParseInt(escape.FindStringSubmatch(s)[1], 16, 32)
			if err != nil {
				t.Fatal(err)
			}
			return string(rune(n))
		})
		out = append(out, sample{kind, strings.TrimSuffix(text, "\n")})
	}
	return out
}
