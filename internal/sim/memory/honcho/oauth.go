package honcho

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"hermesd/internal/sim/memory"
)

// tokenPath is the path of the token endpoint.
const tokenPath = "/oauth/token"

// tokenLife is how long an access token is valid.
const tokenLife = time.Hour

// A grant is what one sign-in allows.
type grant struct {
	number          int // of the tokens
	access, refresh string
	ends            time.Time
	used            []string // refresh tokens that were used
	revoked         bool
}

// Grant makes a grant and returns its tokens. From then on access tokens (hch-at-…) are
// valid only if they are the grant's newest; other keys are as Options say.
func (s *Server) Grant() (access, refresh string, ends time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.grant = grant{number: s.grant.number}
	s.grant.rotate()
	return s.grant.access, s.grant.refresh, s.grant.ends
}

// EndAccess ends the access token of the grant before its time.
func (s *Server) EndAccess() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.grant.ends = time.Now()
}

func (g *grant) rotate() {
	g.number++
	g.access, g.refresh = fmt.Sprintf("hch-at-%06d", g.number), fmt.Sprintf("hch-rt-%06d", g.number)
	g.ends = time.Now().Add(tokenLife)
}

// valid reports whether a key is no access token, or the grant's newest.
func (s *Server) valid(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := &s.grant
	return !strings.HasPrefix(key, "hch-at-") || key == g.access && !g.revoked && time.Now().Before(g.ends)
}

// refresh replaces the tokens of the grant. A refresh token that was used before revokes
// it.
func (s *Server) refresh(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := &s.grant
	token := r.PostFormValue("refresh_token")
	if slices.Contains(g.used, token) {
		g.revoked = true
	}
	if g.revoked || token == "" || token != g.refresh || r.PostFormValue("grant_type") != "refresh_token" || r.PostFormValue("client_id") == "" {
		memory.JSON(w, http.StatusBadRequest, map[string]any{"error": "invalid_grant"})
		return
	}
	g.used = append(g.used, token)
	g.rotate()
	memory.JSON(w, http.StatusOK, map[string]any{
		"access_token": g.access, "refresh_token": g.refresh, "expires_in": int(tokenLife.Seconds()), "scope": "write", "token_type": "Bearer",
	})
}
