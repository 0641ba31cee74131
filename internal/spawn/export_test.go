package spawn

// Unfenced returns the sandbox without its name space, as it is where there
// are none to be had.
func (s *Sandbox) Unfenced() *Sandbox {
	u := *s
	u.status.Isolated = false
	return &u
}
