package tokens

import (
	_ "embed" // the table
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"strings"
	"sync"
)

//go:embed models.json
var builtin []byte

// DefaultContext is the context length assumed for unknown models. A caller that uses it
// warns the user that model.context_length can be set.
const DefaultContext = 128_000

// A Table holds context lengths and minimum cacheable prefixes of models. It is immutable
// and safe for concurrent use.
type Table struct {
	// Date and Source name the day and the origin of the figures.
	Date, Source string

	context, minCache map[string]int
}

// tableFile is the JSON form of a table. Keys are parts of model names, lower case; the
// longest key that a name contains applies. A dot and a hyphen are equivalent.
type tableFile struct {
	Date     string         `json:"date"`
	Source   string         `json:"source"`
	Context  map[string]int `json:"context"`
	MinCache map[string]int `json:"min_cache"`
}

// Builtin returns the embedded table.
func Builtin() *Table { return builtinTable() }

var builtinTable = sync.OnceValue(func() *Table {
	t, err := (&Table{}).With(strings.NewReader(string(builtin)))
	if err != nil {
		panic(err) // a broken invariant: tests decode the file
	}
	return t
})

// With returns a copy of t with override on top. An override is JSON in the format of
// models.json; for equal keys the override applies.
func (t *Table) With(override io.Reader) (*Table, error) {
	var f tableFile
	d := json.NewDecoder(override)
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		return nil, fmt.Errorf("decode model table: %w", err)
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
			return nil, fmt.Errorf("min_cache of %q: %d is not a positive number of tokens", k, n)
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

// Context returns the context length of model, in tokens, and whether the table has it.
func (t *Table) Context(model string) (tokens int, ok bool) { return longest(t.context, model) }

// MinCache returns the minimum number of tokens of a prefix that the provider caches.
func (t *Table) MinCache(model string) int {
	const defaultMinCache = 1024
	if n, ok := longest(t.minCache, model); ok {
		return n
	}
	return defaultMinCache
}

// A Source is the origin of a context length.
type Source string

// The sources, the most reliable first.
const (
	FromConfig   Source = "model.context_length"
	FromCustom   Source = "the custom provider's entry"
	FromProvider Source = "learned from the provider"
	FromService  Source = "the service's default, whatever the model could take"
	FromTable    Source = "the built-in table"
	FromFallback Source = "a guess: set model.context_length"
)

// A Query asks for the context length of a model.
type Query struct {
	Model, BaseURL string
	Config         int // model.context_length; 0 if not set
	Custom         int // of a custom provider's entry for the model; 0 if not set
	// Service is the length that the service gives any model unless it is told otherwise; 0
	// if it gives each model its own.
	Service int
}

// Resolve returns the context length for q, from the configuration, the learned lengths, or
// the table.
func (t *Table) Resolve(q Query, learned *LearnedLengths) (tokens int, from Source) {
	switch n, ok := learned.Context(q.Model, q.BaseURL); {
	case q.Config > 0:
		return q.Config, FromConfig
	case q.Custom > 0:
		return q.Custom, FromCustom
	case ok:
		return n, FromProvider
	case q.Service > 0:
		return q.Service, FromService
	}
	if n, ok := t.Context(q.Model); ok {
		return n, FromTable
	}
	return DefaultContext, FromFallback
}

// Limits of a plausible context length.
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

// LearnedLengths holds the context lengths and output limits that providers reported. Its methods may be
// called from any goroutine; a nil LearnedLengths is empty for Context.
type LearnedLengths struct {
	mu    sync.Mutex // guards what follows
	known map[string]int
}

// NewLearnedLengths returns the lengths in before, as returned by All. Implausible values
// are dropped.
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

// listSuffix is the key suffix of lengths from model lists.
const listSuffix = "#list"

// Context returns the learned length of model at baseURL: the limit named by a later
// rejection, which is lower, otherwise the length from a model list.
func (l *LearnedLengths) Context(model, baseURL string) (tokens int, ok bool) {
	if l == nil {
		return 0, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	key := learnedKey(model, baseURL)
	n, ok := l.known[key]
	if !ok {
		n, ok = l.known[key+listSuffix]
	}
	return n, ok
}

// SetReported stores the length from a provider's model list and reports whether it is new;
// a new length discards the limit of an earlier rejection. Implausible lengths are ignored.
func (l *LearnedLengths) SetReported(model, baseURL string, tokens int) bool {
	if checkLength(tokens) != nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	key := learnedKey(model, baseURL)
	if l.known[key+listSuffix] == tokens {
		return false
	}
	l.known[key+listSuffix] = tokens
	delete(l.known, key)
	return true
}

// SetFromError stores the limit named by a rejection (llm.Error.Limit), if it is lower than
// current, the length assumed so far, and reports whether that changed anything.
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

const outputSuffix = "#output"

// Output returns the most tokens that model at baseURL can write in one answer, as an error
// has named it (llm.Error.OutputLimit); 0 if none has.
func (l *LearnedLengths) Output(model, baseURL string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.known[learnedKey(model, baseURL)+outputSuffix]
}

// SetOutput stores the limit that Output returns, and reports whether it is new. Implausible
// limits are ignored.
func (l *LearnedLengths) SetOutput(model, baseURL string, tokens int) bool {
	if checkLength(tokens) != nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	key := learnedKey(model, baseURL) + outputSuffix
	changed := l.known[key] != tokens
	l.known[key] = tokens
	return changed
}

// All returns a copy of the learned lengths, to be stored.
func (l *LearnedLengths) All() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.known)
}
