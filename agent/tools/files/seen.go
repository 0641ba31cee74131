package files

import (
	"io/fs"
	"os"
	"sync"
)

const mostSeen = 4096 // files that are remembered

// A memory knows how files were when sessions looked at them last.
type memory struct {
	mu    sync.Mutex // guards what follows
	stamp map[[2]string]fs.FileInfo
}

// note keeps how a session has seen a file.
func (m *memory) note(session, path string, info fs.FileInfo) {
	if info == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stamp == nil || len(m.stamp) >= mostSeen {
		m.stamp = map[[2]string]fs.FileInfo{} // what is forgotten is not known to have changed
	}
	m.stamp[[2]string{session, path}] = info
}

// changed reports whether a file is known to be another than the session has
// seen.
func (m *memory) changed(session, path string, now fs.FileInfo) bool {
	m.mu.Lock()
	was, ok := m.stamp[[2]string{session, path}]
	m.mu.Unlock()
	return ok && (!os.SameFile(was, now) || was.Size() != now.Size() || !was.ModTime().Equal(now.ModTime()))
}
