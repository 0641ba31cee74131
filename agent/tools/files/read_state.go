package files

import (
	"io/fs"
	"os"
	"sync"
)

const maxSeen = 4096 // files that are remembered

// A readState knows how files were when sessions looked at them last.
type readState struct {
	mu    sync.Mutex // guards what follows
	stamp map[[2]string]fs.FileInfo
}

// note keeps how a session has seen a file.
func (m *readState) note(session, path string, info fs.FileInfo) {
	if info == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stamp == nil || len(m.stamp) >= maxSeen {
		m.stamp = map[[2]string]fs.FileInfo{} // what is forgotten is not known to have changed
	}
	m.stamp[[2]string{session, path}] = info
}

// changed reports whether a file is known to be another than the session has
// seen.
func (m *readState) changed(session, path string, now fs.FileInfo) bool {
	m.mu.Lock()
	was, ok := m.stamp[[2]string{session, path}]
	m.mu.Unlock()
	return ok && (!os.SameFile(was, now) || was.Size() != now.Size() || !was.ModTime().Equal(now.ModTime()))
}
