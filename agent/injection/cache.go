package injection

import "sync"

// A Memo knows so many texts, or so many bytes of them, whichever is less; the
// last one in any case.
const (
	memos     = 64
	memoBytes = 1 << 20
)

// A Cache is Scan for texts that come again, such as a file that each prompt
// holds: what was found in the last texts is known. Texts are compared as they
// are, so that no other one can pass for them. Its zero value is ready; its
// methods may be called from several goroutines.
type Cache struct {
	mu    sync.Mutex // guards what follows
	known map[string][]Finding
	order []string // the oldest first
	bytes int      // of all of them
}

// Scan returns what Scan would. The caller must not change the findings.
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
	for len(m.order) > 0 && (len(m.order) == memos || m.bytes+len(text) > memoBytes) {
		delete(m.known, m.order[0])
		m.bytes -= len(m.order[0])
		m.order = m.order[1:]
	}
	m.known[text] = found
	m.order = append(m.order, text)
	m.bytes += len(text)
	return found
}
