package files

import (
	"io/fs"
	"os"
	"sync"
)

const maxSeen = 4096 // maximum number of stored states

// A readState stores the state of files when sessions last read them.
type readState struct {
	mu    sync.Mutex // guards what follows
	stamp map[[2]string]fs.FileInfo
}

// record stores the state of a file as read by a session.
func (m *readState) record(session, path string, info fs.FileInfo) {
	if info == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stamp == nil || len(m.stamp) >= maxSeen {
		m.stamp = map[[2]string]fs.FileInfo{} // files without a stored state count as unchanged
	}
	m.stamp[[2]string{session, path}] = info
}

// changed reports whether a file differs from the state that the session has read.
func (m *readState) changed(session, path string, now fs.FileInfo) bool {
	m.mu.Lock()
	was, ok := m.stamp[[2]string{session, path}]
	m.mu.Unlock()
	return ok && (!os.SameFile(was, now) || was.Size() != now.Size() || !was.ModTime().Equal(now.ModTime()))
}
