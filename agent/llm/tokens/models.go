package tokens

import (
	_ "embed" // the table
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"strconv"
	"strings"
	"sync"
)

//go:embed models.json
var builtin []byte

// DefaultContext is taken for models of which nothing is known. Whoever takes it
// warns, and says that model.context_length can be set.
const DefaultContext = 128_000

// A Table says what models can take. It does not change, so it may be used from
// any goroutine.
type Table struct {
	// Date and Source say when the figures were looked up, and where.
	Date, Source string

	context, minCache map[string]int
}

// tableFile is a table as it is written down. Keys are parts of the names of
// models, lower case; the longest that a name contains counts. A dot and a
// hyphen are the same.
type tableFile struct {
	Date     string         `json:"date"`
	Source   string         `json:"source"`
	Context  map[string]int `json:"context"`
	MinCache map[string]int `json:"min_cache"`
}

// Builtin returns the table that comes with the program.
func Builtin() *Table { return builtinTable() }

var builtinTable = sync.OnceValue(func() *Table {
	t, err := (&Table{}).With(strings.NewReader(string(builtin)))
	if err != nil {
		panic(err) // a broken invariant: the tests read the file
	}
	return t
})

// With returns t with what override says on top. An override is JSON in the form
// of models.json; keys of both tables that are equal are the override's.
func (t *Table) With(override io.Reader) (*Table, error) {
	var f tableFile
	d := json.NewDecoder(override)
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		return nil, fmt.Errorf("read the table of models: %w", err)
	}
	out := &Table{Date: f.Date, Source: f.Source, context: map[string]int{}, minCache: map[string]int{}}
	maps.Copy(out.context, t.context)
	maps.Copy(out.minCache, t.minCache)
	for k, n := range f.Context {
		if err := checkLength(n); err != nil {
			return nil, fmt.Errorf("context of %q: %w", k, err)
		}
		out.context[normal(k)] = n
	}
	for k, n := range f.MinCache {
		if n <= 0 {
			return nil, fmt.Errorf("min_cache of %q: %d is no number of tokens", k, n)
		}
		out.minCache[normal(k)] = n
	}
	return out, nil
}

func normal(name string) string { return strings.ReplaceAll(strings.ToLower(name), ".", "-") }

// longest returns the value of the longest key that model contains.
func longest(m map[string]int, model string) (int, bool) {
	model = normal(model)
	best, found := "", false
	for k := range m {
		if strings.Contains(model, k) && (!found || len(k) > len(best) || len(k) == len(best) && k < best) {
			best, found = k, true
		}
	}
	return m[best], found
}

// Context returns the length of model's context window by the table.
func (t *Table) Context(model string) (tokens int, ok bool) { return longest(t.context, model) }

// MinCache returns how many tokens a prefix must have for the provider to cache
// it.
func (t *Table) MinCache(model string) int {
	const usual = 1024
	if n, ok := longest(t.minCache, model); ok {
		return n
	}
	return usual
}

// A Source says where a context length is from.
type Source string

// The sources, the surest first.
const (
	FromConfig   Source = "model.context_length"
	FromCustom   Source = "the custom provider's entry"
	FromProvider Source = "learned from the provider"
	FromTable    Source = "the built-in table"
	FromFallback Source = "a guess: set model.context_length"
)

// A Query asks for the context length of a model.
type Query struct {
	Model, BaseURL string
	Config         int // model.context_length; 0 if it is not set
	Custom         int // of a custom provider's entry for the model; 0 if not set
}

// Resolve answers q from what the person said, what was learned, and the table.
func (t *Table) Resolve(q Query, learned *LearnedLengths) (tokens int, from Source) {
	switch n, ok := learned.Context(q.Model, q.BaseURL); {
	case q.Config > 0:
		return q.Config, FromConfig
	case q.Custom > 0:
		return q.Custom, FromCustom
	case ok:
		return n, FromProvider
	}
	if n, ok := t.Context(q.Model); ok {
		return n, FromTable
	}
	return DefaultContext, FromFallback
}

// The limits of a context length that is believed.
const (
	minLength = 1024
	maxLength = 10_000_000
)

func checkLength(n int) error {
	if n < minLength || n > maxLength {
		return fmt.Errorf("%d is no context length: it is between %d and %d tokens", n, minLength, maxLength)
	}
	return nil
}

var errLength = errors.New("a context length is a plain number of tokens, such as 200000")

// ParseLength reads a context length that a person wrote: a plain number of
// tokens. For 256K and the like the error says what to write instead.
func ParseLength(s string) (int, error) {
	s = strings.TrimSpace(s)
	n, err := strconv.Atoi(s)
	if err == nil {
		return n, checkLength(n)
	}
	digits := strings.TrimRight(s, "kKmM")
	f, err := strconv.ParseFloat(digits, 64)
	if err != nil || len(s)-len(digits) != 1 {
		return 0, fmt.Errorf("%w, not %q", errLength, s)
	}
	unit := 1000.0
	if strings.ContainsAny(s, "mM") {
		unit = 1e6
	}
	if checkLength(int(f*unit)) != nil { // also what is no number at all
		return 0, fmt.Errorf("%w, not %q", errLength, s)
	}
	return 0, fmt.Errorf("%w: write %d, not %q", errLength, int(f*unit), s)
}

// LearnedLengths holds the context lengths that providers told. Its methods may be
// called from any goroutine; a nil Learned knows nothing.
type LearnedLengths struct {
	mu    sync.Mutex // guards what follows
	known map[string]int
}

// NewLearnedLengths returns what was learned before, as All returned it. Values that
// cannot be are left out.
func NewLearnedLengths(before map[string]int) *LearnedLengths {
	l := &LearnedLengths{known: map[string]int{}}
	for k, n := range before {
		if checkLength(n) == nil {
			l.known[k] = n
		}
	}
	return l
}

func learnedKey(model, baseURL string) string { return model + "@" + strings.TrimRight(baseURL, "/") }

// listed stands behind the key of what a list of models has named.
const listed = "#list"

// Context returns what is known of model at baseURL: what a list of models has
// named, or the limit of a refusal since, which is lower.
func (l *LearnedLengths) Context(model, baseURL string) (tokens int, ok bool) {
	if l == nil {
		return 0, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	key := learnedKey(model, baseURL)
	n, ok := l.known[key]
	if !ok {
		n, ok = l.known[key+listed]
	}
	return n, ok
}

// SetReported notes the length that a provider's list of models names, and reports
// whether that is new: then what a refusal named before holds no more. Lengths
// that cannot be are not believed.
func (l *LearnedLengths) SetReported(model, baseURL string, tokens int) bool {
	if checkLength(tokens) != nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	key := learnedKey(model, baseURL)
	if l.known[key+listed] == tokens {
		return false
	}
	l.known[key+listed] = tokens
	delete(l.known, key)
	return true
}

// SetFromError notes the limit that a refusal named (llm.Error.Limit), if it is lower
// than current, the length that was gone by, and reports whether it was noted.
func (l *LearnedLengths) SetFromError(model, baseURL string, limit, current int) bool {
	if limit >= current || checkLength(limit) != nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	key := learnedKey(model, baseURL)
	changed := l.known[key] != limit
	l.known[key] = limit
	return changed
}

// All returns what was learned, to be stored.
func (l *LearnedLengths) All() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.known)
}
