package plugin

import "time"

// Wake ends the retry delay of a program that failed.
func (h *Host) Wake() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.retryAt = time.Time{}
}
