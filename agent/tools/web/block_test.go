package web_test

import (
	"net/http"
	"strings"
	"testing"

	"hermesd/agent/tools/web"
	"hermesd/internal/safehttp"
)

func TestBlockedPagesAreNotFetched(t *testing.T) {
	s, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/away" {
			http.Redirect(w, r, "http://blocked.test/secret", http.StatusFound)
			return
		}
		send("text/plain", "the page")(w, r)
	})
	tools := open(t, web.Options{Dial: safehttp.Options{Allow: []string{host(s)}}, Blocked: []string{"blocked.test", "*.sub.test", "https://www.other.test/x"}})
	for url, blocked := range map[string]bool{
		s.URL + "/":             false,
		s.URL + "/away":         true,
		"http://blocked.test/":  true,
		"http://a.BLOCKED.test": true,
		"http://other.test:81/": true,
		"http://x.sub.test/":    true,
	} {
		if got := run(t, tools["web_extract"], pages{URLs: []string{url}}); strings.Contains(got, "security.website_blocklist") != blocked {
			t.Errorf("%s: %s", url, got)
		}
	}
}
