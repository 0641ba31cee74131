package injection

import "sync"

// Limits of a Cache, in texts and bytes. The last text is always kept.
const (
	maxCached      = 64
	maxCachedBytes = 1 << 20
)

// A Cache is a Scan for texts that are scanned repeatedly, such as a file that is part of
// each prompt: it keeps the findings of the last texts. Texts are compared byte by byte, so
// no other text can pass for a cached one. Its zero value is ready to use; its methods may
// be called from several goroutines.
type Cache struct {
	mu    sync.Mutex // guards what follows
	known map[string][]Finding
	order []string // oldest first
	bytes int      // of all cached texts
}

// Scan returns the same as the function Scan. The caller must not change the findings.
func (m *Cache) Scan(text string) []Finding {
	m.mu.Lock()
	found, ok := m.known[text]
	m.mu.Unlock()
	if ok {
		return found
	}
	found = Scan(text)
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.known[text]; ok {
		return found
	}
	if m.known == nil {
		m.known = map[string][]Finding{}
	}
	for len(m.order) > 0 && (len(m.order) == maxCached || m.bytes+len(text) > maxCachedBytes) {
		delete(m.known, m.order[0])
		m.bytes -= len(m.order[0])
		m.order = m.order[1:]
	}
	m.known[text] = found
	m.order = append(m.order, text)
	m.bytes += len(text)
	return found
}
