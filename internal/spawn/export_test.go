package spawn

// Unfenced returns the sandbox without its own namespaces, as on a machine that does not
// support them.
func (s *Sandbox) Unfenced() *Sandbox {
	u := *s
	u.status.Isolated = false
	return &u
}
