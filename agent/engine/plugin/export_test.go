package plugin

import "time"

// Wake ends the rest of a program that failed.
func (h *Host) Wake() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.until = time.Time{}
}
