package admin

// Path returns the path of the socket.
func (s *Server) Path() string { return s.path }
